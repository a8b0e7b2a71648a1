"""What a statement says of whom, in words of a fixed list: ``home``, ``job``, ``likes:coffee``,
``time:dentist``.

Of a single-valued attribute the latest statement holds, so two memories with the same subject and attribute
contradict each other, however they are worded. Lists (children, pets, allergies) grow. The patterns are in
``attributes.txt``; the cues that separate statements from other sentences are in ``cues.txt``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from engine.rules.triples import VERBS
from engine.text.keywords import segmented, single_characters
from engine.text.statements import OVER
from jiyi.protocol.conversations import Category
from jiyi.text.remembering import remembered
from jiyi.text.sections import sections, union
from jiyi.text.words import CJK_CHARACTER, is_filler, normalise, stem, telling

#: Words that say nothing of what somebody likes or what is on Tuesday.
_GENERAL = frozenset(
    """food thing stuff music movi film book game meet meeting appoint appointment time date new now anymor
    more ani all go eat drink listen watch play read realli veri much everi day morn even weekli my our the
    cup glass bowl lot night 现在 目前 时间 家里 新家 新装 喂的 改签 在家 我们""".split()
)
#: People of whom anybody has one: "my boss" is one person, unlike "my friend".
_ONE_OF = (
    "mom|mum|mother|dad|father|parents|sister|brother|son|daughter|wife|husband|partner|girlfriend"
    "|boyfriend|fiancée?|grandmother|grandma"
    "|grandfather|grandpa|boss|manager|landlord|supervisor|advisor|dog|cat"
)
_ONE_OF_CHINESE = (
    "妈妈|妈|爸爸|爸|母亲|父亲|爸妈|父母|妹妹|妹|弟弟|弟|哥哥|哥|姐姐|姐|大女儿|小女儿|女儿|大儿子|小儿子|儿子|孩子|老婆|妻子|老公|丈夫|先生|太太|对象"
    "|男朋友|女朋友|男友|女友|奶奶|爷爷|外婆|外公|姥姥|姥爷|舅舅|舅妈|姑姑|姑妈|叔叔|婶婶|表哥|表姐|表弟|表妹|堂哥|堂姐|堂弟|堂妹|老板|领导|上司|房东|导师|猫|狗"
)

#: Words that stand where a name might: "my sister Nora lives", "my sister lives".
_NO_NAME = (
    r"(?:is|has|was|had|will|just|now|also|actually|recently|currently|finally|still|really|lives?"
    r"|moved|works?|and|likes?|loves?"
    r"|hates?|turned|got)\b"
)
_AUXILIARY = r"(?:'m| am|'re| are|'s| is|'ve| have| has|'d| had| was| were)?"
_ADVERBS = (
    r"(?: (?:been|just|now|also|actually|recently|currently|finally|still|really|both|all|already|only"
    r"|always|even|absolutely"
    r"|totally))*"
)
_CHINESE_ADVERBS = (
    "(?:现在|目前|最近|已经|一直|从小|其实|还|也|都|就|刚刚|刚|今年|终于|又|本来|平时|去年|前年|上个?月"
    "|上周|昨天|今天|每天|以前)*"
)
_MY_ONE = (
    rf"(?:my|our) (?P<one>(?:(?:older|younger|little|big|twin) )?(?:{_ONE_OF}))(?:,? (?!{_NO_NAME})[a-z]+,?)?"
)
_CHINESE_MY_ONE = rf"我(?:们|家|们家)?(?:的)?(?P<one>{_ONE_OF_CHINESE})"
_CHINESE_MANY = "我(?:的)?(?:同事|朋友|下属|同学|室友|邻居)"
_MACROS = {
    "{I}": rf"\b(?:i|we|(?P<pronoun>he|she)|{_MY_ONE}|(?:my|our) [\w-]+){_AUXILIARY}{_ADVERBS}",
    "{i}": r"(?:i|we)",
    "{我}": (
        rf"(?:(?P<pronoun>[他她](?!们))|{_CHINESE_MY_ONE}|{_CHINESE_MANY}|我们家|我们|我家|我|咱们"
        rf"|咱家|咱)[他她]?{_CHINESE_ADVERBS}"
    ),
    "{be}": rf"(?:'s| is| are|'re|'m| am| was| were| will be| has been){_ADVERBS}",
    "{now}": _ADVERBS,
}
_OWN = (
    "own|new|old|current|full|first|last|name|address|job|phone|e-?mail|place|birthday|goal|plan|hometown"
    "|favou?rite"
)
#: Somebody of whom the user has several: what is said of one friend is not said of another.
_MANY = re.compile(rf"\A(?:my|our) (?!(?:{_OWN})\b)|\A{_CHINESE_MANY}")
_PERSON = re.compile(
    r"\b(?:my|our) (?P<en>(?:(?:older|younger|little|big|twin)"
    rf" )?(?:{_ONE_OF}))\b|我(?:们|家|们家)?(?:的)?(?P<zh>{_ONE_OF_CHINESE})"
)
#: Who speaks of themselves, and may leave the pronoun out in the clauses that follow.
_SPEAKS = re.compile(r"\W{0,9}(?:(?P<en>i)\b|(?P<zh>我)(?![的家们]))", re.IGNORECASE)
_HEADER = re.compile(r"(?<![a-z ])([a-z ]+) (\d+) ?([a-z ]*)")


@dataclass(frozen=True, slots=True)
class Attribute:
    """What is said of ``user`` or a relation of theirs; ``over``: that something is no longer so."""

    name: str
    subject: str = "user"
    category: Category = "user_fact"
    importance: float = 5
    single_valued: bool = False
    over: bool = False
    #: The pattern of its section that matched: the same wording with another value contradicts.
    wording: int = 0
    #: What the pattern found, such as "i live in": the value is in the rest.
    phrase: str = ""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    importance: float
    flags: frozenset[str]
    patterns: list[re.Pattern[str]]


def attribute_of(text: str, person: str | None = None) -> Attribute | None:
    """What a statement says of whom: by the first section of the list that fits.

    ``person`` is whom "she", "he", 他 or 她 means: a relation of the user's who was spoken of last.
    """
    statement = normalise(text).replace("’", "'")
    for section in _sections():
        for wording, pattern in enumerate(section.patterns):
            match = pattern.search(statement)
            if match is not None and (attribute := _read(section, match, statement, person)) is not None:
                return replace(attribute, wording=wording, phrase=match.group())
    return None


def _read(section: _Section, match: re.Match[str], statement: str, person: str | None) -> Attribute | None:
    name, single = section.name, "single" in section.flags
    groups = match.groupdict()
    if "key" in groups:
        key = _key(groups["key"] or "")
        if not key:
            return None
        name, single = f"{name}:{key}", True
    subject = "user" if "own" in section.flags else groups.get("one")
    if subject is None and groups.get("pronoun"):
        if person is None:
            return None
        subject = person
    if subject is None and "key" not in groups and _MANY.search(match.group()):
        single = False  # one friend of many: nothing is known of which
    category: Category = "user_preference" if "preference" in section.flags else "user_fact"
    over = OVER.search(statement) is not None
    return Attribute(name, subject or "user", category, section.importance, single, over)


def with_pronoun(clause: str, sentence: str) -> tuple[str, Attribute] | None:
    """A clause without the "I" of its sentence ("I quit, and work at the library now") with it, and what it
    says of the user; None if it says nothing of which there is one.

    What somebody likes is a list of things that belong together, and no statement of its own.
    """
    speaks = _SPEAKS.match(sentence)
    if speaks is None or FIRST_PERSON.match(clause):
        return None
    verb = clause.partition(" ")[0].lower()
    if speaks["en"] and not (verb in VERBS or verb.endswith("ed")):
        return None  # "I hate meetings, nothing before ten"
    whole = f"我{clause}" if speaks["zh"] else f"I {clause}"
    attribute = attribute_of(whole)
    if attribute is None or attribute.subject != "user" or not attribute.phrase.startswith(("i ", "我")):
        return None
    return (whole, attribute) if attribute.single_valued and ":" not in attribute.name else None


def person_in(text: str) -> str | None:
    """The relation of the user's who is spoken of last in a text: "sister", 妈妈."""
    people = [match["en"] or match["zh"] for match in _PERSON.finditer(normalise(text))]
    return people[-1] if people else None


def _key(text: str) -> str:
    """The first telling word of what a statement is about: spicy food and spicy noodles are both spicy."""
    idle = _GENERAL | CALENDAR | EMPTY | NUMBERS
    words = (word for word in telling(text) if word not in idle and not word.isdigit())
    return next((word for word in words if not is_filler(word)), "")


@cache
def _sections() -> list[_Section]:
    result = []
    for header, lines in sections(__package__, "attributes.txt").items():
        # Ours, and tested.
        name, importance, flags = _HEADER.fullmatch(header).groups()  # type: ignore[union-attr]
        patterns = [re.compile(_expanded(line)) for line in lines]
        result.append(_Section(name, float(importance), frozenset(flags.split()), patterns))
    return result


def _expanded(line: str) -> str:
    for macro, meaning in _MACROS.items():
        line = line.replace(macro, meaning)
    return line


#: Words of chat that name nothing: feelings, encouragement, and what any sentence may hold.
_EMPTY = """good great nice cool awesome amazing wonderful fantastic incredible lovely super sweet beautiful
    gorgeous glad happy excited thrilled proud stoked pumped thank thanks appreciate support supportive help
    helpful grateful thankful mean means lot love like enjoy really truly definitely totally absolutely
    always never keep keeping go goin going push positive inspire inspiring inspiration motivate motivation
    believe dream goal chase hard work worth journey way thing something anything everything feel feeling
    make making get getting got know think thought see look hear heard sound say tell told talk time day
    life today now soon lately back forward take taking come coming came give giving want try trying need
    let sure yeah wow hey people someone everyone world moment special memory joy fun happiness important
    key stay strong power powerful bring brings well still even just also much many more kind bit part share
    sharing experience agree right true one idea deserve care connection touch bond remind remember congrats
    congratulations luck best better check pic picture photo end matter amazed hope hopefully pretty gonna
    wanna gotta brb plus though maybe tough rough challenge challenging difficult change difference impact
    passion passionate progress amount result kudos mate buddy bro man dude guy find show showing seem real
    yes no okay ok place learn learning grow growth explore express creative actually basically anyway
    exactly honestly literally interesting yet meh fine number problem bye step steps encourage encouraging
    encouragement worry worries dedication dedicated must later sorry sometimes rock cheer advice"""
EMPTY = frozenset(stem(word) for word in _EMPTY.split())
NUMBERS = frozenset(
    map(stem, "one two three four five six seven eight nine ten twice once couple few".split())
)
#: Words of the calendar: that two things are on a Friday does not make them the same.
_CALENDAR = """monday tuesday wednesday thursday friday saturday sunday january february march april may
    june july august september october november december today tomorrow yesterday tonight week weekend month
    year morning afternoon evening night noon date appointment meeting"""
_CHINESE_CALENDAR = """周一 周二 周三 周四 周五 周六 周日 周末 星期 下周 上周 这周 本周 下个 上个 个月 明天
    后天 昨天 今天 上午 下午 晚上 早上 中午 一下 时候 现在 开始 打算 我们 他们 其实 已经"""
CALENDAR = frozenset(stem(word) for word in _CALENDAR.split()) | frozenset(_CHINESE_CALENDAR.split())


#: Texts whose words are kept.
WORDS_KEPT = 4_096


@remembered(WORDS_KEPT)
def subject_words(text: str) -> frozenset[str]:
    """What a text is about: telling words and Chinese words; no fillers, days or feelings."""
    latin = {word for word in telling(text) if not CJK_CHARACTER.match(word) and len(word) > 1}
    chinese = {word for run in segmented(text) for word in run if len(word) > 1}
    return frozenset(
        word
        for word in latin | chinese | set(single_characters(text))
        if word not in EMPTY and word not in CALENDAR and not is_filler(word) and not word.isdigit()
    )


def _cue(section: str) -> re.Pattern[str]:
    return union(__package__, "cues.txt", section)


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
