"""By what a statement is told from what is none: words that say little, and the cues of ``cues.txt``."""

from __future__ import annotations

import re

from jiyi.text.sections import union
from jiyi.text.words import stem

#: Words of chat that name nothing: feelings about what somebody said, encouragement, and what any sentence may hold.
_EMPTY = """good great nice cool awesome amazing wonderful fantastic incredible lovely super sweet beautiful gorgeous glad happy excited
    thrilled proud stoked pumped thank thanks appreciate support supportive help helpful grateful thankful mean means lot love
    like enjoy really truly definitely totally absolutely always never keep keeping go goin going push positive inspire inspiring
    inspiration motivate motivation believe dream goal chase hard work worth journey way thing something anything everything feel
    feeling make making get getting got know think thought see look hear heard sound say tell told talk time day life today now
    soon lately back forward take taking come coming came give giving want try trying need let sure yeah wow hey people someone
    everyone world moment special memory joy fun happiness important key stay strong power powerful bring brings well still even
    just also much many more kind bit part share sharing experience agree right true one idea deserve care connection touch bond
    remind remember congrats congratulations luck best better check pic picture photo end matter amazed hope hopefully pretty
    gonna wanna gotta brb plus though maybe tough rough challenge challenging difficult change difference impact passion passionate progress
    amount result kudos mate buddy bro man dude guy find show showing seem real yes no okay ok place learn learning grow growth
    explore express creative actually basically anyway exactly honestly literally interesting yet meh fine number problem bye step
    steps encourage encouraging encouragement worry worries dedication dedicated must later sorry sometimes rock cheer advice"""
EMPTY = frozenset(stem(word) for word in _EMPTY.split())
NUMBERS = frozenset(map(stem, "one two three four five six seven eight nine ten twice once couple few".split()))
#: Words of the calendar: that two things are on a Friday does not make them the same.
_CALENDAR = """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october
    november december today tomorrow yesterday tonight week weekend month year morning afternoon evening night noon date
    appointment meeting"""
_CHINESE_CALENDAR = """周一 周二 周三 周四 周五 周六 周日 周末 星期 下周 上周 这周 本周 下个 上个 个月 明天 后天 昨天 今天
    上午 下午 晚上 早上 中午 一下 时候 现在 开始 打算 我们 他们 其实 已经"""
CALENDAR = frozenset(stem(word) for word in _CALENDAR.split()) | frozenset(_CHINESE_CALENDAR.split())


def _cue(section: str) -> re.Pattern[str]:
    return union("engine.conversations", "cues.txt", section)


#: A capital within a sentence: mostly a name.
NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w'’-]+")
FIRST_PERSON = _cue("first_person")
THIRD_PERSON = _cue("third_person")
SECOND_PERSON = _cue("second_person")
PAST = _cue("past")
NUMBER = _cue("number")
QUESTION_MARK = _cue("question_mark")
OPINION_QUESTION = _cue("opinion_question")
ASKING = _cue("asking")
TAG_QUESTION = _cue("tag_question")
IMAGINED = _cue("imagined")
OPEN = _cue("open")
FICTION = _cue("fiction")
REQUEST = _cue("request")
LASTING = _cue("lasting")
TO_KEEP = _cue("to_keep")
HANDED_OVER = _cue("handed_over")
ROLE_PLAY = _cue("role_play")
OWN_PART = _cue("own_part")
ROLE_PLAY_END = _cue("role_play_end")
QUOTED = _cue("quoted")
SAYING = _cue("saying")
REPORTED = _cue("reported")
TROUBLE = _cue("trouble")
SOLVED = _cue("solved")
FAILED = _cue("failed")
PARTLY = _cue("partly")
YES = _cue("yes")
NO_STATEMENT = _cue("no_statement")
UNSURE = _cue("unsure")
SAYS_ONLY = _cue("says_only")
PASSING = _cue("passing")
MOVED_TO = _cue("moved_to")
STEP = _cue("step")
GAVE_UP = _cue("gave_up")
