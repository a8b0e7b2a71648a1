"""The rules: what they answer, in Chinese and in English, and that they always answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.growth import questions as questions_of_growth
from engine.providers import questions as ask
from engine.providers.questions import (
    FocalPoints,
    Insights,
    Keywords,
    Memo,
    Planning,
    Poignancy,
    Question,
    Triple,
)
from engine.rules.insights import readings
from engine.rules.provider import RULES, Rules
from engine.rules.triples import WordList, weigh

RULE = Rules()


def poignancy(text: str, kind: Any = "event") -> int:
    return RULE.ask(Poignancy(agent_id="Mira", text=text, kind=kind)).poignancy


def triple(text: str, agent: str = "Mira") -> tuple[str, str, str]:
    facts = RULE.ask(Triple(agent_id=agent, text=text))
    return facts.subject, facts.predicate, facts.object


# Poignancy

#: Texts by what they weigh at least and at most.
WEIGHED = {
    (1, 2): """Mira is brushing her teeth | Pavel wakes up and gets dressed | Mira eats breakfast as usual
        | 阿梅在刷牙 | 阿梅起床后叠被子 | 老周照常吃早饭 | 阿梅打扫阳台""",
    (3, 4): """It drizzles over the harbour | Pavel visits the lighthouse with a colleague
        | Mira discusses knitting patterns with Pavel
        | 阿梅看着窗外的云 | 老周去拜访邻居 | 阿梅和老周讨论象棋 | 14路电车是蓝色的""",
    (5, 6): """Pavel prefers rye bread to white bread | Pavel is worried about the leaking roof
        | Mira decided to learn the cello
        | 阿梅打算下个月重新粉刷小船 | 老周喜欢吃黑面包 | 老周担心屋顶漏水 | 阿梅决定学大提琴""",
    (7, 8): """Pavel was in a car accident on the bridge | Mira got fired from the bakery
        | Pavel's bicycle was stolen
        | 老周在桥上出了车祸 | 阿梅被面包房解雇了 | 阿梅对核桃过敏 | 老周的自行车被偷了""",
    (9, 10): """Mira's uncle died last night | Pavel and Ines got married | Ines gave birth to twins
        | Pavel's parents divorced
        | 阿梅的爷爷昨晚去世了 | 老周和小兰结婚了 | 小兰生下一对双胞胎 | 老周的父母离婚了""",
}
EXAMPLES = [(text.strip(), *bounds) for bounds, texts in WEIGHED.items() for text in texts.split("|")]


@pytest.mark.parametrize(
    ("least", "most", "texts"),
    [
        (1, 2, "haha nice|ok ok|lol|Thanks!|Good night|no worries|see you tomorrow|great 😊|👍"),
        (1, 2, "嗯嗯|好的|谢谢啦|哈哈哈|早上好！|收到|好呀好呀|没事没事"),
        # What somebody would be hurt by if it were forgotten.
        (6, 10, "I'm vegetarian|I don't eat meat|I have diabetes|My blood type is AB negative"),
        (6, 10, "My address is 12 Leith Walk|I'm afraid of heights|I promised Anna to call her"),
        (
            6,
            10,
            "my daughter is called Mia|My wife's birthday is on May 3|我吃素|我对青霉素过敏|我有高血压|我怕狗",
        ),
        (
            6,
            10,
            "我是O型血|我家住在良渚文化村|我答应女儿周末带她去海洋馆|我儿子叫小宝|我妈妈的生日是五月三号",
        ),
        # What only sounds like it.
        (2, 5, "恐怕要下雨|哪怕下雨也去散步|It's nice that the ferry was on time|我知道那家店的老板姓什么"),
        (1, 4, "This street is a dead end|手机死机|The kiln fire at the tennis court"),
    ],
)
def test_small_talk_weighs_least_and_what_would_hurt_to_forget_much(
    least: int, most: int, texts: str
) -> None:
    assert [text for text in texts.split("|") if not least <= poignancy(text) <= most] == []


@pytest.mark.parametrize(("text", "low", "high"), EXAMPLES)
def test_poignancy_of_a_statement_is_in_its_range(text: str, low: int, high: int) -> None:
    assert low <= poignancy(text) <= high, weigh(Poignancy(agent_id="", text=text))


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ("Nobody was injured", "Somebody was injured"),
        ("Mira does not like tea", "Mira likes tea"),
        ("阿梅没生病", "阿梅生病"),
        ("Pavel is angry.", "Pavel is angry!"),
        ("老周生气", "老周非常生气"),
        ("Mira eats breakfast", "Mira eats breakfast and decides to leave"),
        ("There are boats in the harbour", "There are 12 boats in the harbour"),
    ],
)
def test_what_denies_weakens_and_what_stresses_strengthens(weaker: str, stronger: str) -> None:
    assert poignancy(weaker) < poignancy(stronger)


def test_a_denial_reaches_no_further_than_its_clause() -> None:
    assert poignancy("No, the house burned down") == poignancy("The house burned down")
    assert poignancy("不，房子着火") == poignancy("房子着火")
    assert poignancy("Moss grows slowly", "thought") == poignancy("Moss grows slowly") + 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("血压一百六十二", ["162"]),
        ("血压一百五", ["150"]),
        ("存款一千零二十元", ["1020元"]),
        ("走了一百多步", []),
        ("房价一百二十万", []),
        ("等了十分钟", []),
        ("房租，二月到期", []),
    ],
)
def test_figures_in_chinese_numerals(text: str, values: list[str]) -> None:
    assert sorted({one.value for one in readings(0, text)}) == values


def test_a_reading_says_what_made_it() -> None:
    reading = weigh(Poignancy(agent_id="Mira", text="Her father died! Mira cried at the hospital"))
    assert reading.poignancy == 10
    assert reading.reasons[0] == "die: 9"
    assert "emphasis: +1" in reading.reasons


@given(st.lists(st.sampled_from(EXAMPLES), max_size=4))
def test_more_that_is_said_never_weighs_less_than_its_heaviest_part_unless_it_is_routine(
    examples: list[tuple[str, int, int]],
) -> None:
    parts = [text for text, _, _ in examples]
    heavy = [poignancy(part) for part in parts if poignancy(part) >= 5]
    assert poignancy(". ".join(parts)) >= max(heavy, default=1)


# Triples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ines Duarte told Pavel about the regatta", ("Ines Duarte", "told", "Pavel about the regatta")),
        ("The landlord wants to sell the house", ("The landlord", "wants to", "sell the house")),
        ("Yesterday I bought a second-hand cello", ("Mira", "bought", "second-hand cello")),
        ("On Monday, Pavel mended the net", ("Pavel", "mended", "net")),
        ("I'll bring the soup", ("Mira", "i'll bring", "soup")),
        ("kettle is idle", ("kettle", "is", "idle")),
        ("reading a letter from home", ("Mira", "reading", "letter from home")),
        ("The ferry will not leave before noon", ("The ferry", "will not leave", "before noon")),
        ("bed", ("Mira", "is", "bed")),
        ("老周把自行车借给了小兰", ("老周", "借给", "自行车")),
        ("阿梅在读一本讲苔藓的书", ("阿梅", "在读", "一本讲苔藓的书")),
        ("昨天下午，老周修好了渔网", ("老周", "修好", "渔网")),
        ("她不喜欢咖啡", ("她", "不喜欢", "咖啡")),
        ("小兰和老周讨论帆船比赛", ("小兰和老周", "讨论", "帆船比赛")),
        ("水壶空闲", ("水壶", "空闲", "水壶空闲")),
        ("好安静", ("Mira", "说", "好安静")),
    ],
)
def test_triples(text: str, expected: tuple[str, str, str]) -> None:
    assert triple(text) == expected


def test_parts_of_a_triple_are_on_one_line_and_short() -> None:
    parts = triple("Pavel wrote " + "a very long letter\n" * 50)
    assert all(len(part) <= 80 and part.isprintable() for part in parts)


# Focal points and insights

HARBOUR = """Mira repairs the harbour crane with Pavel | Mira eats lunch on the pier | The harbour crane is rusting at the joint
    | Pavel says the harbour crane needs a new cable | Mira sleeps | Ines Duarte invites Mira to the regatta
    | Ines Duarte rows every morning | Mira buys apples""".replace("\n    ", " ").split(" | ")
TEA = """阿梅给茶园的主人写信 | 老周说茶园今年的茶叶少 | 阿梅起床 | 小兰带来茶园的新茶叶
    | 阿梅和老周聊象棋 | 老周输了象棋比赛 | 阿梅买菜""".replace("\n    ", " ").split(" | ")


def focal(statements: list[str], count: int, language: Any = "en", agent: str = "Mira") -> list[str]:
    question = FocalPoints(agent_id=agent, language=language, statements=statements, count=count)
    return RULE.ask(question).questions


def test_focal_points_ask_about_what_comes_up_most_in_the_language_of_the_question() -> None:
    assert focal(HARBOUR, 2) == ["What is known about harbour crane?", "What is known about Ines Duarte?"]
    assert focal(TEA, 2, "zh", "阿梅") == ["关于茶园，有什么值得注意的？", "关于老周，有什么值得注意的？"]


def test_the_agent_itself_is_no_topic_nor_is_its_surname() -> None:
    doings = ("reads maps", "draws maps", "folds a kite", "flies a kite", "sings")
    statements = [f"Klaus Berg {doing}" for doing in doings]
    asked = focal(statements, 5, agent="Klaus")
    assert not any("Klaus" in question or "Berg" in question for question in asked)
    assert any("maps" in question for question in asked)


def test_focal_points_begin_with_what_has_figures_in_several_statements() -> None:
    statements = [*TEA, "外婆量血压，高压162", "外婆的血压降到138了"]
    assert focal(statements, 2, "zh", "阿梅") == [
        "关于外婆的血压，有什么值得注意的？",
        "关于茶园，有什么值得注意的？",
    ]


@pytest.mark.parametrize("word", ["ok", "name", "I'm", "I've 2", "有", "的", "really"])
def test_function_words_and_small_talk_are_no_topics(word: str) -> None:
    asked = focal([f"{word} the crane", f"{word} the crane again", f"{word}"], 3)
    assert asked == ["What is known about crane?"]
    # Statements without words still give a question.
    assert focal(["?! …"], 3) == ["What is known about ?! …?"]
    assert focal(["  "], 3) == ["What is known about Mira?"]


BEGIN = datetime(2026, 3, 3, 9, tzinfo=UTC)  # a Tuesday


def insights(
    told: Sequence[tuple[float, str]], focal_point: str = "?", count: int = 5, thoughts: Sequence[int] = ()
) -> list[Any]:
    """Of statements with the days on which they were made."""
    question = Insights(
        agent_id="Mira",
        focal_point=focal_point,
        statements=[text for _, text in told],
        times=[BEGIN + timedelta(days=day) for day, _ in told],
        thoughts=list(thoughts),
        count=count,
    )
    return RULE.ask(question).insights


PRESSURE = [
    (0, "妈妈今天量血压，高压162"),
    (20, "妈妈的血压降到138，医生说继续观察"),
    (50, "妈妈昨天量的，高压134，她得意得不行"),
]


@pytest.mark.parametrize(
    ("told", "course"),
    [
        (PRESSURE, "妈妈的血压：162 → 138 → 134，3月3日至4月22日"),
        (
            [(0, "母亲血压162/95"), (9, "母亲的血压138"), (20, "妈妈的血压134/80，医生满意")],
            "母亲的血压：162/95 → 138 → 134/80，3月3日至23日",
        ),
        (
            [
                (0, "去枣树巷9号看母亲，量出高压一百六十二，她却说是刚爬完楼"),
                (38, "母亲的血压一百三十八，药酒坛子空了，她说是倒给了花"),
                (45, "按老规矩周日去枣树巷量血压，一百三十四，母亲得意得像考了满分"),
            ],
            "母亲的血压：162 → 138 → 134，3月3日至4月17日",
        ),
        (
            [PRESSURE[2], PRESSURE[0], PRESSURE[1]],
            "妈妈的血压：162 → 138 → 134，3月3日至4月22日",
        ),  # however they come
        (
            [
                (0, "Mum's blood pressure was 162"),
                (9, "Mum's blood pressure came down to 138."),
                (330, "my mother's pressure is 134"),
            ],
            "Mum's blood pressure: 162 → 138 → 134, 3 March 2026 to 27 January 2027",
        ),
        (
            [(0, "I weigh 68 kg"), (7, "I weigh 66 kg now"), (14, "down again: I weigh 64.5 kg")],
            "Weigh: 68 kg → 66 kg → 64.5 kg, 3 to 17 March",
        ),
        (
            [(0, "The rent is 2,400"), (40, "The rent went up to 2,900"), (80, "Rent: 3,100")],
            "Rent: 2,400 → 2,900 → 3,100, 3 March to 22 May",
        ),
    ],
)
def test_a_course_of_figures(told: list[tuple[float, str]], course: str) -> None:
    (only,) = insights(told)
    assert only.text == course
    assert only.evidence == [0, 1, 2]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(PRESSURE[:2], id="two readings are no course"),
        pytest.param([(0, "血压162"), (0.1, "血压138"), (0.2, "血压134")], id="nor are those of one day"),
        pytest.param(
            [(0, "血压138"), (9, "血压138，还行"), (20, "这次血压138")], id="nor is what stays the same"
        ),
        pytest.param([(0, "妈妈的血压162"), (9, "爸爸的血压138"), (20, "外婆的血压134")], id="three people"),
        pytest.param(
            [(0, "200 kg of clay, clay 200 kg"), (9, "clay at 5 yuan"), (20, "clay: 300 kg")],
            id="other units",
        ),
        pytest.param(
            [(n, "clay " + " ".join(f"word{i}" for i in range(40)) + f" {n + 9}") for n in range(4)],
            id="long texts",
        ),
        pytest.param(
            [(0, "the flight is on June 12"), (9, "the flight leaves June 19"), (20, "flight: 21 June")],
            id="days",
        ),
        pytest.param(
            [(0, "order INV-2093 is late"), (9, "the order is 2093-A"), (20, "order 10.2.3.4")],
            id="identifiers",
        ),
        pytest.param([(2 * n, "haha ok" if n == 2 else "ok ok") for n in range(3)], id="small talk"),
        pytest.param([(2 * n, "Good morning!") for n in range(3)], id="greetings"),
        pytest.param([(n, text) for n, text in enumerate(HARBOUR)], id="a word in common says nothing"),
        pytest.param([(0, "Pavel mends the net")] * 60, id="nor does a day's repetition"),
    ],
)
def test_what_the_rules_cannot_say_well_they_leave_unsaid(told: list[tuple[float, str]]) -> None:
    assert insights(told) == []
    without_times = Insights(
        agent_id="Mira", focal_point="?", statements=[text for _, text in PRESSURE], count=5
    )
    assert RULE.ask(without_times).insights == []


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ([(7 * n, "Klaus goes to yoga.") for n in range(4)], "On Tuesdays: Klaus goes to yoga"),
        (
            [(7 * n, "晚上去游泳馆") for n in range(3)] + [(7 * n + 2, "晚上去游泳馆了") for n in range(2)],
            "每逢周二、周四：晚上去游泳馆",
        ),
        (
            [(n, "Klaus is having breakfast") for n in range(7)],
            "On at least 5 days, 3 to 9 March: Klaus is having breakfast",
        ),
        ([(2 * n, "阿梅给番茄浇水") for n in range(3)], "3月3日至7日至少有3天：阿梅给番茄浇水"),
    ],
)
def test_what_comes_again_and_again_with_its_days(told: list[tuple[float, str]], text: str) -> None:
    (only,) = insights(told)
    assert only.text == text
    assert only.evidence == list(range(len(told)))
    (often,) = insights(
        [(n, "Pavel mends the net") for n in range(60)] + [(n, "Moss is green") for n in range(2)]
    )
    assert often.text.startswith("On at least 50 days, ")
    assert often.evidence == list(range(48, 60)), "a bounded number of statements"


def test_thoughts_are_no_evidence_and_are_not_thought_again() -> None:
    (first,) = insights(PRESSURE)
    told = [*PRESSURE, (51, first.text), (52, "妈妈的血压：151，三月")]
    assert insights(told, thoughts=[3, 4]) == []
    (other,) = insights(told, thoughts=[4])
    assert 4 not in other.evidence
    assert "151" not in other.text


def test_each_is_in_the_language_of_its_evidence_and_the_focal_point_comes_first() -> None:
    told = [*PRESSURE, *((7 * n, "Klaus goes to yoga") for n in range(4))]
    texts = ["妈妈的血压：162 → 138 → 134，3月3日至4月22日", "On Tuesdays: Klaus goes to yoga"]
    assert [one.text for one in insights(told)] == texts
    assert [one.text for one in insights(told, "What is known about yoga?")] == texts[::-1]
    assert [one.text for one in insights(told, count=1)] == texts[:1]


# Conversations


@pytest.mark.parametrize(
    ("utterances", "kept"),
    [
        (
            [
                ("Ines", "Hi Mira! How are you?"),
                ("Mira", "Fine, thanks."),
                ("Ines", "Let's meet on Friday at 5 at the pier"),
            ],
            2,
        ),
        (
            [
                ("Ines", "The moss in the crypt has an astonishing colour"),
                ("Mira", "I will bring you soup tomorrow"),
            ],
            1,
        ),
        ([("老周", "今天的云真好看"), ("阿梅", "记得周五之前把钥匙还给房东")], 1),
    ],
)
def test_planning_keeps_what_is_agreed(utterances: list[tuple[str, str]], kept: int) -> None:
    sentence = RULE.ask(Planning(agent_id="Mira", utterances=utterances)).sentence
    assert sentence == f'{utterances[kept][0]} said: "{utterances[kept][1]}"'


@pytest.mark.parametrize(
    ("utterances", "kept"),
    [
        (
            [
                ("Ines", "Good morning!"),
                ("Mira", "My sister got engaged in Porto last week"),
                ("Ines", "Sure, see you"),
            ],
            1,
        ),
        ([("小兰", "嗯"), ("老周", "医生说我对青霉素过敏"), ("小兰", "好的，慢走")], 1),
    ],
)
def test_memo_keeps_what_says_most(utterances: list[tuple[str, str]], kept: int) -> None:
    sentence = RULE.ask(Memo(agent_id="Mira", language="zh", utterances=utterances)).sentence
    assert sentence == f"{utterances[kept][0]}说：“{utterances[kept][1]}”"
    assert RULE.ask(Memo(agent_id="Mira", utterances=[("Ines", " \n")])).sentence.startswith(
        "Nothing was said"
    )
    long = RULE.ask(Memo(agent_id="Mira", utterances=[("Ines", "moss " * 1_000)])).sentence
    assert len(long) < 330
    assert long.endswith('…"')


# Always

any_text = st.text(max_size=120) | st.sampled_from(HARBOUR + TEA)
whose: dict[str, Any] = {"agent_id": any_text, "language": st.sampled_from(get_args(ask.Language))}
utterances = st.lists(st.tuples(any_text, any_text), min_size=1)
texts = st.lists(any_text, min_size=1, max_size=12)
kinds = st.sampled_from(["event", "thought", "chat"])
any_question = st.one_of(
    st.builds(Poignancy, **whose, text=any_text, kind=kinds),
    st.builds(Triple, **whose, text=any_text),
    st.builds(Keywords, **whose, text=any_text),
    st.builds(FocalPoints, **whose, statements=texts, count=st.integers(1, 6)),
    st.builds(Insights, **whose, focal_point=any_text, statements=texts, count=st.integers(1, 6)),
    st.builds(Planning, **whose, utterances=utterances),
    st.builds(Memo, **whose, utterances=utterances),
)


@given(any_question)
def test_every_question_has_a_valid_answer_and_always_the_same_one(question: Question[Any]) -> None:
    answer = RULE.ask(question)
    assert question.answer.model_validate(answer.model_dump()) == answer
    assert question.problems(answer) == []
    assert Rules().ask(question) == answer


@given(st.lists(any_text, min_size=1, max_size=12), st.integers(1, 6))
def test_insights_rest_on_distinct_statements_in_order_and_differ_from_each_other(
    statements: list[str], count: int
) -> None:
    asked = focal(statements, count)
    assert len(asked) == len(set(asked))
    found = insights(
        [(day, text) for day, text in enumerate(statements)], "What is known about harbour?", count
    )
    assert all(item.evidence == sorted(set(item.evidence)) for item in found)
    assert len({tuple(item.evidence) for item in found}) == len({item.text for item in found}) == len(found)


def test_there_is_a_rule_for_every_question() -> None:
    known = [*vars(ask).values(), *vars(questions_of_growth).values()]
    asked = {
        cls for cls in known if isinstance(cls, type) and issubclass(cls, Question) and hasattr(cls, "prompt")
    }
    assert set(RULES) == asked
    for model, nothing in (
        (Insights, {"focal_point": "?", "statements": [], "count": 1}),
        (Memo, {"utterances": []}),
    ):
        with pytest.raises(ValidationError):  # nothing is asked about nothing
            model.model_validate({"agent_id": "a", **nothing})


@pytest.mark.parametrize(
    "text", ["记忆" * 10_000, "a " * 10_000, "not dead " * 2_200, "，" * 20_000, "The " * 5_000]
)
def test_the_longest_text_takes_no_time_to_speak_of(text: str) -> None:
    start = time.thread_time()
    for question in (
        Poignancy(agent_id="a", text=text),
        Triple(agent_id="a", text=text),
        Keywords(agent_id="a", text=text),
        Insights(agent_id="a", focal_point=text, statements=[text] * 50, count=5),
        Memo(agent_id="a", utterances=[("a", text)]),
    ):
        RULE.ask(question)
    assert time.thread_time() - start < 5


# Word lists


@pytest.mark.parametrize("name", ["weights", "cues"])
def test_the_lists_say_of_no_phrase_two_things(name: str) -> None:
    from engine.rules.triples import read

    levels: dict[str, set[str]] = {}
    for language in ("en", "zh"):
        for line in read(f"{name}.{language}.txt").splitlines():
            label, colon, phrases = line.partition(":")
            if colon and not line.startswith("#"):
                for phrase in phrases.split(","):
                    levels.setdefault(phrase.strip(), set()).add(label)
    twice = {phrase: labels for phrase, labels in levels.items() if len(labels) > 1}
    assert not twice or name == "cues"  # a word may be two cues, and the last one counts
    assert "" not in levels


def test_the_longest_phrase_at_a_place_counts_and_a_word_stands_for_its_forms() -> None:
    words = WordList("1: dead\n2: dead end\n3: 死\n4: 死角")
    assert [found.label for found in words.find("a dead end, dead; 死角和死")] == ["4", "3", "2", "1"]
    words = WordList("x: decide, give up")
    found = [one.phrase for one in words.find("she decides; decided to give up, giving up")]
    assert found == ["decid", "decid", "give up", "give up"]
