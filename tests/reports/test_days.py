"""Which day it was: the speaker's, whatever day it was in Greenwich."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from jiyi import Client
from jiyi.chat.chain import Exchange
from jiyi.chat.loop import MemoryStage
from jiyi.errors import InvalidRequest, NoAnswer
from jiyi.protocol import events as wire
from jiyi.protocol.appointments import ConfigureHeartbeat
from jiyi.protocol.conversations import ContextRequest, Message
from jiyi.protocol.event_requests import FORMS
from jiyi.protocol.recall import RecallRequest
from jiyi.protocol.retrieval import Filters, RetrievalRequest
from models.appointments.heartbeat_actions import configure_heartbeat
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.reflection.reflections import next_scheduled
from tasks.conversations import injection
from tasks.retrieval import context
from tasks.retrieval.days import memories_of_named_time
from tests.integration.conversations.talk import facts, nodes, save, say
from tests.reports.talks import CALLED, a_group_each, extracted, talk
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")
at = datetime.fromisoformat


def prompt(group: str, query: str, **fields: Any) -> str:
    return injection.build(
        Actor(group, "test"), ContextRequest(agent_id="helper", query=query, **fields)
    ).context


def recalled(group: str, query: str, **fields: Any) -> str:
    return context.build(Actor(group, "test"), RecallRequest(agent_id="helper", query=query, **fields)).text


def configured(group: str, **settings: Any) -> None:
    save(
        [
            wire.build(
                {"type": "agent.configured", "group_id": group, "agent_id": "helper", "payload": settings}
            )
        ]
    )


#: When something was said, what, a question, and how its day and the one before it are written.
SAID = [
    ("2026-08-12T06:40:00+08:00", "我昨天把钢琴卖了。", "钢琴卖了吗？", "08-12", "昨天 (2026-08-11)"),
    (
        "2026-02-28T23:50:00-10:00",
        "I sold my kayak yesterday.",
        "Did I sell the kayak?",
        "28 February",
        "yesterday (2026-02-27)",
    ),
    (
        "2027-01-01T00:20:00+14:00",
        "I sold my drums yesterday.",
        "Did I sell the drums?",
        "1 January",
        "yesterday (2026-12-31)",
    ),
    (
        "2026-03-29T23:10:00-12:00",
        "I sold my violin yesterday.",
        "Did I sell the violin?",
        "29 March",
        "yesterday (2026-03-28)",
    ),
]


def test_a_message_is_of_its_speakers_day(group: str) -> None:
    talks = a_group_each(group, SAID)
    for one, (start, text, *_) in talks:
        say(one, *CALLED, text, start=at(start))
    extracted()
    for one, (_, _, question, day, named) in talks:
        assert any(named in fact for fact in facts(one))
        assert named in recalled(one, question)
        assert named in (shown := prompt(one, question))
        assert day in shown


#: The zone of the agent, when something is said, and the day before for whoever says it.
ZONES = [
    ("Asia/Shanghai", "2026-08-11T22:40:00Z", "2026-08-11"),  # 06:40 on the 12th
    ("America/New_York", "2026-03-08T04:30:00Z", "2026-03-06"),  # 23:30 in winter
    ("America/New_York", "2026-07-08T03:30:00Z", "2026-07-06"),  # 23:30 in summer
    ("America/New_York", "2026-07-08T04:30:00Z", "2026-07-07"),  # 00:30 in summer
    ("Asia/Shanghai", "2026-08-11T22:40:00-03:00", "2026-08-10"),  # an offset that came counts more
]


def test_an_agents_zone_counts_where_no_offset_came(group: str) -> None:
    talks = a_group_each(group, ZONES)
    for one, (tz, moment, _) in talks:
        configured(one, tz=tz)
        say(one, *CALLED, "I sold my telescope yesterday.", start=at(moment))
    by_heartbeat = f"{group}-heartbeat"
    say(by_heartbeat, "Hello.")
    request = ConfigureHeartbeat(agent_id="helper", tz="Asia/Shanghai")
    configure_heartbeat.perform(Actor(by_heartbeat, "test"), request)
    say(by_heartbeat, *CALLED, "I sold my harp yesterday.", start=at("2026-08-11T22:40:00Z"), session_id="s2")
    extracted()
    for one, (_, _, day) in talks:
        assert any(f"yesterday ({day})" in fact for fact in facts(one))
        assert f"yesterday ({day})" in prompt(one, "What about my telescope?")
    assert any("yesterday (2026-08-11)" in fact for fact in facts(by_heartbeat))


def test_a_deployment_has_a_zone(group: str) -> None:
    with environment(tz="Asia/Tokyo"):
        talk(group, "I sold my accordion yesterday.", start=at("2026-08-11T22:40:00Z"))
    assert any("yesterday (2026-08-11)" in fact for fact in facts(group))


def test_today_is_the_users_in_a_question(group: str) -> None:
    for said, start, session_id in (
        ("Fed the horses at the farm.", "2026-08-11T23:10:00Z", "early"),  # 07:10 on the 12th in China
        ("Ate noodles with Bo.", "2026-08-11T12:10:00Z", "late"),  # 20:10 on the 11th
    ):
        say(group, *CALLED, said, start=at(start), session_id=session_id)
    extracted()
    now = at("2026-08-12T00:30:00Z")
    lines = recalled(group, "What did I do today?", now=now, tz="Asia/Shanghai").splitlines()
    assert any(line.startswith("- 2026-08-12") and "horses" in line for line in lines)
    assert not any("horses" in line and "2026-08-11" in line for line in lines)


def offsets(group: str) -> list[int | None]:
    return [row["provenance"].get("utc_offset") for row in nodes(group)]


def test_a_loop_knows_each_users_zone(group: str) -> None:
    zones = {"mia": "Asia/Kathmandu", "joe": "America/Phoenix"}
    events: list[Any] = []

    asked: list[str | None] = []

    def inject(request: ContextRequest, _seconds: float) -> Any:
        asked.append(request.tz)
        raise NoAnswer("nobody is there")

    for user, zone in zones.items():
        stage = MemoryStage(inject, events.append, group, tz=zones.get)
        exchange = Exchange(
            "helper", "", "What did I do today?", "s1", user, (Message(role="user", text="Fed the goats."),)
        )
        with pytest.raises(NoAnswer):
            stage.before(exchange)
        assert asked.pop() == zone
        stage.after(exchange)
    save([wire.build(event) for event in events])
    assert offsets(group) == [345, -420]


def test_a_program_says_its_zone_with_an_event(group: str) -> None:
    given = {
        "type": "turn.recorded",
        "agent_id": "helper",
        "session_id": "s1",
        "payload": {"role": "user", "text": "Fed the geese."},
    }
    at_night = "2026-08-11T22:40:00Z"
    for fields in (
        {"tz": "Asia/Shanghai", "occurred_at": at_night},
        {"tz": "Asia/Shanghai", "occurred_at": "2026-08-11T22:40:00-03:00"},
    ):
        save([FORMS["turn.recorded"].model_validate({**given, **fields}).as_event(group)])
    assert offsets(group) == [480, -180]


def test_a_clients_zone_is_that_of_its_events_and_an_unknown_one_is_refused(group: str) -> None:
    bodies: list[bytes] = []

    class Wire:
        def publish(self, body: bytes, *_: object, **__: object) -> None:
            bodies.append(body)

    client = Client(group, tz="Pacific/Kiritimati", transport=Wire())  # type: ignore[arg-type] – publishes only
    client.observe("helper", "Fed the hens.")
    assert b"+14:00" in bodies[0]
    with pytest.raises(InvalidRequest, match="tz: no time zone 'Mars/Olympus'"):
        Client(group, tz="Mars/Olympus", transport=Wire())  # type: ignore[arg-type] – publishes only
    with pytest.raises(ValueError, match="tz"):
        RecallRequest(agent_id="helper", query="?", tz="Asia/Atlantis")


def test_an_agent_reflects_at_its_own_night(group: str) -> None:
    configured(group, tz="Asia/Shanghai")
    now = at("2026-08-11T22:40:00Z")
    with unit_of_work() as connection:
        assert next_scheduled(connection, (group, "helper"), 9, now) == at(
            "2026-08-12T03:00:00+08:00"
        ) + timedelta(days=1)


DIARY = {
    "2026-07-31T18:00:00+02:00": "Watered the tomatoes with Ida.",
    "2026-08-07T19:00:00+02:00": "Fixed the brakes of the bicycle.",
    "2026-08-08T09:00:00+02:00": "I visited the aquarium yesterday.",
    "2026-08-09T20:00:00+02:00": "Baked a plum cake for the neighbours.",
}
RIJI = {
    "2025-10-03T10:00:00+08:00": "在青岛的海边捡了很多贝壳。",
    "2026-06-12T20:00:00+08:00": "把阳台的木地板刷了一遍。",
    "2026-07-05T09:00:00+08:00": "陪外公下了一天象棋。",
}


#: A diary, a question, and what of the diary it brings.
OF_A_TIME = [
    (DIARY, "What did I do last Friday?", ["brakes", "aquarium"]),
    (DIARY, "What happened in July?", ["tomatoes"]),
    (DIARY, "What did I do yesterday?", ["cake"]),
    (RIJI, "上个月我做了什么？", ["象棋"]),
    (RIJI, "去年国庆我做了什么？", ["贝壳"]),
    (RIJI, "六月份我做了什么？", ["地板"]),
]
MONDAY = at("2026-08-10T10:00:00+02:00")


def kept(group: str, diary: dict[str, str], *more: Any) -> None:
    """A diary, a session a day."""
    for number, (moment, text) in enumerate(diary.items()):
        say(group, text, *more, start=at(moment), session_id=f"s{number}")


def test_a_named_day_or_month_brings_what_happened_in_it(group: str) -> None:
    rest = [f"What I do on day {number} is what I did: 我做了什么，第{number}件" for number in range(40)]
    for number, diary in enumerate((DIARY, RIJI)):
        kept(f"{group}-{number}", diary)
        say(f"{group}-{number}", *rest, start=at("2026-01-05T10:00:00+02:00"), session_id="rest")
    for diary, question, brings in OF_A_TIME:
        for how in (prompt, recalled):
            written = how(f"{group}-{int(diary is RIJI)}", question, now=MONDAY, max_tokens=300)
            assert [word for word in brings if word not in written] == []


def test_only_a_question_about_a_time_brings_what_happened_then(group: str) -> None:
    kept(group, DIARY, "What did I do?", ("assistant", "You fed the cat."))
    friday = ["Fixed the brakes of the bicycle.", "I visited the aquarium yesterday."]
    filters = Filters(kinds=["session"], types=["chat", "event"])
    for message, then in (
        ("What did I do last Friday?", friday),
        ("I slept badly last Friday.", []),
        ("What shall we do on Friday?", []),
        ("What do I like?", []),
    ):
        asked = RetrievalRequest(
            group_id=group, agent_id="helper", queries=[message], now=MONDAY, touch=False, filters=filters
        )
        assert sorted(node["description"] for node in memories_of_named_time(asked)) == then, message
