"""The parts of a Chinese clause, from the parts of speech that the segmenter gives."""

from __future__ import annotations

import rjieba

from engine.providers.llms.rules.wordlists import TRIM

#: Characters of a subject at most.
MAX_SUBJECT = 20

#: Tags of what a subject is made of: nouns, names, pronouns, Latin words, idioms, numbers, …, and what joins them.
_NOUNS = ("n", "r", "eng", "s", "i", "l", "j", "vn", "an", "f", "m", "q", "b", "z", "c", "uj", "a")
#: Tags that end a subject: adverbs, times, prepositions.
_NO_SUBJECT = frozenset({"d", "ad", "zg", "t", "tg", "p"})
#: Verbs whatever the segmenter says.
_VERBS = frozenset("是 为 叫 姓 在 有 像 等于 去世 空闲 闲置 过敏".split())
#: Say little without the verb that follows: 打算去, 答应还.
_LIGHT = frozenset("打算 准备 计划 决定 想 要 会 能 可以 应该 必须 需要 开始 继续 去 来 到 答应 正在 请 让 叫 使".split())
#: Belong to the verb that they follow.
_PARTICLES = frozenset("了 着 过 地 得 完 好 到 出 上 下 起 住 掉 给 成 在".split())
_DENIALS = frozenset({"不", "没", "没有", "别", "未"})
_JOINTS = frozenset({"和", "与", "的", "跟", "、", "在", "里", "上"})

_NAME_PREFIXES = frozenset("老小阿大")

Tagged = list[tuple[str, str]]


def parts(clause: str) -> tuple[str, str, str] | None:
    """Subject (empty if there is none), predicate and object; None if no verb is found."""
    tagged = tagged_words(clause)
    at = next((place for place in range(len(tagged)) if _is_verb(tagged, place)), None)
    if at is None:
        return None
    end = at + 1
    while end < len(tagged) and (tagged[end][0] in _PARTICLES or (tagged[end - 1][0] in _LIGHT and tagged[end][1].startswith("v"))):
        end += 1
    subject, moved = _before(tagged[:at])
    denial = next((word for word, _ in tagged[max(0, at - 2) : at] if word in _DENIALS), "")
    predicate = "".join(word for word, _ in tagged[at:end]).removesuffix("了").removesuffix("着")
    return subject, denial + predicate, moved or _joined(tagged[end:])


def tagged_words(text: str) -> Tagged:
    """The words of a text with their parts of speech, in the tags of jieba."""
    return [(word, _tag(word, tag)) for word, tag in rjieba.tag(text) if word.strip()]


def _tag(word: str, tag: str) -> str:
    """老周 is no time, whatever the segmenter says."""
    return "nr" if tag == "t" and len(word) == 2 and word[0] in _NAME_PREFIXES else tag


def _is_verb(tagged: Tagged, place: int) -> bool:
    word, tag = tagged[place]
    if tag == "vn" or not (tag.startswith("v") or word in _VERBS):
        return False
    if tagged[place + 1 : place + 2] == [("的", "uj")] and place + 2 < len(tagged):
        return False  # 喜欢的书: it describes a noun
    return not (word == "在" and any(later.startswith("v") for _, later in tagged[place + 1 :]))  # 在家看书


def _before(tagged: Tagged) -> tuple[str, str]:
    """The subject, and the object if 把 has moved it before the verb."""
    subject: list[str] = []
    for place, (word, tag) in enumerate(tagged):
        if word in {"把", "将"} and subject:
            return _subject(subject), "".join(moved for moved, _ in tagged[place + 1 :])
        if word in {"，", ","}:
            subject = []  # 下午，他…: what stood before says when
        elif tag in _NO_SUBJECT:
            if subject:
                break
        elif tag.startswith(_NOUNS) or word == "、":
            subject.append(word)
    return _subject(subject), ""


def _subject(words: list[str]) -> str:
    while words and words[-1] in _JOINTS:
        words.pop()
    found = "".join(words).strip(TRIM + "的")
    return found if len(found) <= MAX_SUBJECT else ""


def _joined(tagged: Tagged) -> str:
    """Words up to the next comma; Latin ones keep their spaces."""
    text = "".join(f" {word} " if word.isascii() and len(word) > 1 else word for word, _ in tagged)
    return text.strip(TRIM + "了").replace("，", ",").partition(",")[0]
