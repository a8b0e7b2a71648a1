"""What a query asks for: its intent, its keywords, and words of the same meaning (ZC-33…ZC-38)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from jiyi.conversations.types import KINDS, Intent, Kind, QueryAnalysis
from jiyi.text.words import keywords_ranked, normalise, single_characters

#: Characters of a query that are looked at: longer ones are documents, whose end may hold the question.
READ_CHARS = 4_000
#: Words that a query is expanded by at most.
MAX_EXPANSIONS = 24

#: The kinds that each intent looks among, the most likely first (requirements §4.16).
TARGETS: dict[Intent, list[Kind]] = {
    "preference": ["preference"],
    "knowledge": ["knowledge", "session"],
    "experience": ["experience"],
    "code": ["knowledge", "experience"],
    "identity_recall": ["preference", "knowledge"],
    "general": list(KINDS),
}
#: What shows an intent, in the order in which they are tried. Code first: "why does my function fail" is about the code.
_INTENTS: dict[Intent, re.Pattern[str]] = {
    "code": re.compile(
        r"```|\b(?:code|function|method|class|compil\w*|syntax|regex|sql|python|javascript|typescript|java|rust|golang|c\+\+|html|css|json|yaml|api|endpoint"
        r"|stack ?trace|traceback|exception|segfault|import error|unit tests?|refactor\w*|algorithm|script|docker\w*|kubernetes|git|npm|pip|bash|query the database"
        r"|library|framework|variable|loop|array|null pointer|type ?error|keyerror|dataframe|webpack|react|django|flask)\b"
        r"|\w+\(\)|\b\w+\.(?:py|js|ts|java|rs|go|cpp|sh|sql|json|ya?ml)\b|\b[a-z]+_[a-z_]+\b|\b[a-z]+[A-Z]\w+\b"
        r"|代码|函数|方法名|编译|语法|正则|脚本|接口|类名|变量|循环|数组|单元测试|重构|算法|报错信息|编程|程序怎么|爬虫|前端组件|数据结构|递归|装饰器|异步|命令行"
    ),
    "experience": re.compile(
        r"\b(?:how did (?:we|i|you) (?:solve|fix|handle|resolve|deal with|get rid|get around|manage)|(?:last time|before|previously|earlier|once) (?:we|i) (?:solved|fixed|handled|had|ran|met|got)"
        r"|(?:ran|run) into|have (?:we|i) (?:seen|had|met|solved|tried)|what (?:worked|helped|went wrong|fixed|solved|did (?:we|i) (?:do|try) (?:when|about|against|last time))"
        r"|lessons? learn(?:ed|t)|any experience|workaround|similar (?:problem|issue|error|case)|same (?:problem|error|issue)|again (?:crash\w*|fail\w*)|troubleshoot\w*|root cause|what was the (?:fix|solution|trick|cause))\b"
        r"|(?:上次|之前|以前|上回|当时|曾经)[^，。]{0,14}(?:解决|处理|修|搞定|办|弄好|排查)|怎么(?:解决|处理|修|搞定|排查)(?:的|过|好的|掉的)|有没有(?:遇到|碰到|试)过|遇到过|踩过|经验|教训|类似的?(?:问题|情况|错误)"
        r"|同样的(?:问题|错误)|又(?:崩|挂|报错|出错|连不上)|试过(?:什么|哪些)|什么办法(?:有用|管用)|哪(?:个|种)(?:办法|方法)(?:有用|管用|有效)|根本原因|解决(?:方案|办法|方法)"
    ),
    "preference": re.compile(
        r"\b(?:prefer\w*|favou?rites?|(?:do|did|would|should|does|don't) (?:i|he|she|they|we|\w+) (?:really )?(?:still )?(?:like|love|enjoy|hate|dislike|want|eat|drink|mind)|likes? (?:to )?(?:eat|drink|watch|read|do|most|best)"
        r"|(?:i|he|she|my \w+) (?:likes?|loves?|hates?|dislikes?)|taste in|allerg\w*|vegetarian|diet|hobb(?:y|ies)|into (?:these days)?|usually (?:eat|drink|order|have|sit|wear)|my usual"
        r"|suits? (?:my|me)|for my taste|fond of|habits?|style do i|recommend (?:me )?(?:a|some|something)|how do i (?:like|want|take)|something (?:i'd|i would|i will) (?:like|enjoy|love))\b"
        r"|喜欢|爱(?:吃|喝|看|听|玩)|偏好|偏爱|最爱|口味|讨厌|忌口|过敏|习惯(?!于是)|爱好|兴趣|合(?:我|他|她)(?:的)?(?:口味|胃口)|想要什么|爱不爱|推荐(?:一|几|点|个|些)|怎么称呼我|风格"
    ),
    "knowledge": re.compile(
        r"\b(?:what|who|whom|whose|where|when|which|how (?:many|much|old|long|far|often|tall)|is it|does|did|was|were|has|have|are|is|why)\b"
        r"|什么|谁|哪(?:里|儿|个|天|年|些|一|家|位|所)|几(?:点|号|个|岁|月|次|位|天|年)|多少|多(?:大|久|长|高|远|重)|何时|为什么|是不是|有没有|吗|呢|叫啥|在哪|怎样|如何"
    ),
}
_WEAK = re.compile(r"我|咱|俺|\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|our|us)\b")
#: Code keeps its identifiers whole: ``load_config``, ``fetchData``, ``app.py`` (§4.16).
_IDENTIFIER = re.compile(r"\b[A-Za-z]\w*(?:[._]\w+)+\b|\b[a-z]+[A-Z]\w*\b")


def analyse(query: str, industry: Mapping[str, Sequence[str]] | None = None) -> QueryAnalysis:
    """What the query asks for.

    Args:
        query: the user's words.
        industry: the group's own keywords, each with words of the same meaning (ZC-121).
    """
    read = query[:READ_CHARS]
    text = normalise(read)
    intent = intent_of(read)
    identifiers = _IDENTIFIER.findall(read) if intent == "code" else []
    keywords = list(dict.fromkeys([*identifiers, *keywords_ranked(read), *single_characters(read)]))
    return QueryAnalysis(
        original=query,
        keywords=keywords,
        intent=intent,
        target_types=TARGETS[intent],
        expansions=_expansions(text, keywords, industry or {}),
        weak_identity=_WEAK.search(text) is not None,
    )


def intent_of(query: str) -> Intent:
    """The first intent whose words are in a query; "general" for what asks for nothing, as small talk and orders."""
    text = normalise(query)
    if any(pattern.search(text) for pattern in _identity()):
        return "identity_recall"
    for intent, pattern in _INTENTS.items():
        if pattern.search(query if intent == "code" else text) or (intent == "code" and pattern.search(text)):
            return intent
    return "general"


def _expansions(text: str, keywords: Sequence[str], industry: Mapping[str, Sequence[str]]) -> list[str]:
    own = set(keywords)
    found: dict[str, None] = {}
    for group in _synonyms():
        if any(_says(word, text, own) for word in group):
            found |= dict.fromkeys(word for word in group if not _says(word, text, own))
    for keyword, others in industry.items():
        group = [normalise(keyword), *map(normalise, others)]
        if any(_says(word, text, own) for word in group):
            found |= dict.fromkeys(word for word in group if not _says(word, text, own))
    return list(found)[:MAX_EXPANSIONS]


def _says(word: str, text: str, keywords: set[str]) -> bool:
    """Whether a text has a word: Latin ones whole, a Chinese character by itself only where it is a word."""
    if word.isascii():
        return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None
    return word in keywords if len(word) == 1 else word in text


@cache
def _identity() -> list[re.Pattern[str]]:
    return [re.compile(line) for line in _lines("identity.txt")]


@cache
def _synonyms() -> list[list[str]]:
    return [[word.strip() for word in line.split(",")] for line in _lines("synonyms.txt")]


def _lines(name: str) -> list[str]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
