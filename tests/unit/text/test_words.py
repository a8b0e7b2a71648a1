"""jiyi.text.words: keywords in Chinese and English, and what counts as idle."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.text.keywords import MAX_EXTRACTED_KEYWORDS, keywords_of, keywords_ranked, words_of
from jiyi.protocol.base import MAX_KEYWORD_CHARS
from jiyi.text.words import MAX_MARKS, is_idle, language_of, nfkc, normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＡＢＣ１２３", "abc123"),
        ("Klaus", "klaus"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("记忆", "记忆"),
        ("，", ","),
        ("", ""),
    ],
)
def test_normalise_folds_width_and_case(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0345\u0301\u0316", "\U0001d165\u0316"])
def test_rows_of_marks_are_put_apart_once(marks: str) -> None:
    """Normalisation sorts a row in time that grows with its square."""
    text = "e" + marks * 1_000
    assert normalise(text) == normalise(normalise(text))
    assert max(map(len, normalise(text).split("\u034f"))) <= MAX_MARKS + 2
    assert nfkc("e" + marks * 4) == unicodedata.normalize("NFKC", "e" + marks * 4)


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        pytest.param(
            "Klaus is reading about gentrification", ["klaus", "reading", "gentrification"], id="English"
        ),
        pytest.param("林岚喜欢乌龙茶", ["林岚", "喜欢", "乌龙茶"], id="Chinese"),
        pytest.param(
            "林岚和Tomas讨论蜂蜜", ["林岚", "tomas", "讨论", "蜂蜜"], id="mixed, in the order of the text"
        ),
        pytest.param(
            "Order INV-2093 came from a.b@example.org",
            ["order", "inv-2093", "came", "a.b@example.org"],
            id="identifiers",
        ),
        pytest.param("Ｋｌａｕｓ　２０２４", ["klaus", "2024"], id="full width"),
        pytest.param("it's don't o’clock", ["o’clock"], id="apostrophes"),
        pytest.param("tea tea TEA", ["tea"], id="each once"),
        pytest.param("我们已经可以 what is it to you", [], id="stop words only"),
        pytest.param("a I 茶 7", [], id="single characters"),
        pytest.param(
            " ".join(f"word{i}" for i in range(20)),
            [f"word{i}" for i in range(MAX_EXTRACTED_KEYWORDS)],
            id="the first ones",
        ),
    ],
)
def test_keywords_are_taken_from_the_text(description: str, expected: list[str]) -> None:
    assert keywords_of(description, None, None) == expected


@pytest.mark.parametrize(
    ("subject", "object_", "expected"),
    [
        pytest.param("Klaus", "tea", ["Klaus", "tea"], id="both, as they are written"),
        pytest.param("the Ville:home:kitchen:bed", "idle", ["bed", "idle"], id="the last part of a path"),
        pytest.param(None, "tea", ["tea"], id="object only"),
        pytest.param("Klaus", "Klaus", ["Klaus"], id="the same twice"),
        pytest.param("", "the Ville:", ["words"], id="empty parts name nothing"),
        pytest.param(" : ", " ", ["words"], id="blank parts name nothing"),
    ],
)
def test_subject_and_object_are_the_keywords_when_there_are_any(subject, object_, expected) -> None:
    assert keywords_of("some words", subject, object_) == expected


@given(st.text(max_size=200))
@example("see " + "q7" * 5_000)  # a pasted token does not fit into an index
def test_keywords_are_distinct_normalised_short_and_few(text: str) -> None:
    found = keywords_of(text, None, None)
    assert len(found) == len(set(found)) <= MAX_EXTRACTED_KEYWORDS
    assert all(2 <= len(word) <= MAX_KEYWORD_CHARS and word == word.strip() for word in found)


@pytest.mark.parametrize(
    ("description", "idle"),
    [
        *((text, True) for text in (" Idle. ", "The kiln is idle", "lamps are idle")),
        *((text, True) for text in ("Isabella's coffee machine is IDLE!", "机器闲置", "柜台空闲中")),
        ("收银台处于空闲状态。", True),
        *((text, False) for text in ("an idle thought", "the kiln is idle too often", "bridled", "")),
        *(
            (text, False)
            for text in ("idle hands make tea", "柜台空闲", "空闲的时候他读书", "机器闲置，林岚去读书")
        ),
        ("Klaus hates to see that the old machine behind the house is idle", False),
    ],
)
def test_what_only_says_that_something_is_idle_is_idle(description: str, *, idle: bool) -> None:
    assert is_idle(description) == idle


@pytest.mark.parametrize(
    ("predicate", "object_", "expected"),
    [
        ("is", "idle", True),
        ("IS", "Idle", True),
        ("is", "reading", False),
        ("was", "idle", False),
        ("", "", False),
    ],
)
def test_a_triple_decides_where_there_is_one(predicate: str, object_: str, *, expected: bool) -> None:
    assert is_idle("idle", predicate, object_) is expected
    assert is_idle("a long text about tea", predicate, object_) is expected
    for half in (("is", None), (None, "idle")):  # decides nothing
        assert is_idle("bed is idle", *half)
        assert not is_idle("tea", *half)


@pytest.mark.parametrize(
    "text",
    ["a " * 10_000, " " * 20_000 + "x", "闲置" * 10_000, "a.b@" * 5_000, "记忆" * 10_000, "is " * 6_000],
)
def test_the_longest_text_takes_no_time_to_speak_of(text: str) -> None:
    start = time.process_time()
    is_idle(text)
    keywords_of(text, None, None)
    assert time.process_time() - start < 2


CHINESE = "Klaus喜欢乌龙茶|她在读 Neuromancer|会议在10:30|订单INV-2093已经寄出|《盐井旧事》！|Tomas和Harriet讨论瓷器"
OTHER = "Klaus reads 书 in the library|Teacher Xu explains 慢 to Tomas| ?!|10:30|❤|Ça va bien|Он читает"


@pytest.mark.parametrize(("language", "texts"), [("zh", CHINESE), ("en", OTHER)])
def test_what_is_mostly_chinese_is_chinese_and_anything_else_taken_for_english(
    language: str, texts: str
) -> None:
    assert {language_of(text) for text in texts.split("|")} == {language}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tea with honey, tea with milk", ["tea", "honey", "milk"]),
        ("we saw the regatta with Ines", ["ines", "regatta", "saw"]),
        ("the parcel INV-2093 came", ["inv-2093", "parcel", "came"]),
        ("NASA calls", ["nasa"]),
        ("林岚喝乌龙茶", ["乌龙茶", "林岚"]),
    ],
)
def test_the_most_telling_keywords_come_first(text: str, expected: list[str]) -> None:
    assert keywords_ranked(text) == expected


@given(st.text(max_size=200))
@example("00 jumps")
def test_ranking_adds_no_words_and_leaves_out_verbs_of_somebody_only(text: str) -> None:
    ranked, words = keywords_ranked(text), set(words_of(text))
    assert len(ranked) == len(set(ranked))
    assert set(ranked) <= words
    assert all(word.endswith("s") for word in words - set(ranked))
    assert bool(ranked) == bool(words)


@pytest.mark.parametrize(
    ("description", "subject", "object_", "expected"),
    [
        ("I'm vegetarian", None, None, ["vegetarian"]),
        ("They've moved, it's Anna's kiln", None, None, ["moved", "anna's", "kiln"]),
        ("She took me to the hospital", "Anna", "me to the hospital", ["Anna", "hospital"]),
        ("我有一只猫", "林岚", "有", ["林岚"]),
        ("serving coffee", "the Ville:Hobbs Cafe:counter", "serving coffee", ["counter", "serving coffee"]),
    ],
)
def test_keywords_are_what_people_look_for(
    description: str, subject: str | None, object_: str | None, expected: list[str]
) -> None:
    assert keywords_of(description, subject, object_) == expected
