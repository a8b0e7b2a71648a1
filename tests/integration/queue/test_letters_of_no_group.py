"""Dead letters of no known group are operators' to see, everywhere: they may be anybody's words."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from jiyi.protocol.wire.signatures import CallSigner, parse_key
from models.db.connection import unit_of_work
from models.queue import dead_letters
from tests.integration.actions.calling import called
from tests.integration.memory.test_inbox import observed, rows, save

pytestmark = pytest.mark.usefixtures("database")

SECRET = "whose words these are nobody knows"


@pytest.fixture
def letter() -> tuple[UUID, UUID]:
    """The letter's id, and that of the event that it may have been."""
    event_id = uuid4()
    with unit_of_work() as connection:
        dead_letters.add_message(
            connection, f'{{"said": "{SECRET}"}}', f"{SECRET}: not signed", event_id, None
        )
    (row,) = rows("SELECT letter_id FROM dead_letters WHERE subject_id = :id", id=event_id)
    return row["letter_id"], event_id  # type: ignore[return-value]


def requests(letter: tuple[UUID, UUID]) -> list[tuple[str, str, dict[str, Any]]]:
    """Each question that might tell of it: REST's address, the broker's action, its request."""
    letter_id, event_id = (str(one) for one in letter)
    return [
        ("/dead-letters?limit=500", "dead_letters.list", {}),
        (f"/dead-letters/{letter_id}", "dead_letters.get", {"id": letter_id}),
        (f"/events/states?id={event_id}", "events.states", {"ids": [event_id]}),
    ]


def test_programs_of_a_group_see_nothing_of_them(letter, group, web_app, api_key):
    key = api_key(group, "publish", "read", "admin")
    given = parse_key(key)
    assert given is not None
    client, signer = web_app.test_client(), CallSigner(given.key_id, given.signing_key)
    for path, action, request in requests(letter):
        answer = client.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {key}"})
        assert SECRET not in answer.text, path
        assert SECRET.encode() not in called(f"rpc.{action}", {"group_id": group, **request}, signer), action
    resolve = {"group_id": group, "action": "discard", "letter_ids": [str(letter[0])]}
    called("rpc.dead_letters.resolve", resolve, signer)
    assert rows("SELECT state FROM dead_letters WHERE letter_id = :id", id=letter[0]) == [{"state": "open"}]
    counted = json.loads(called("rpc.stats.show", {"group_id": group}, signer))["value"]
    assert counted["counts"]["dead_letters"] == 0
    operator = parse_key(api_key(None, "operator"))
    assert operator is not None
    signer = CallSigner(operator.key_id, operator.signing_key)
    for _, action, request in requests(letter):
        assert SECRET.encode() in called(f"rpc.{action}", {"group_id": group, **request}, signer), action


def test_people_of_a_group_see_nothing_of_them_and_operators_do(letter, group, sign_in):
    save(observed(group))
    for role, sees in (("viewer", False), ("admin", False), ("operator", True)):
        browser = sign_in(role, None if role == "operator" else [group])  # type: ignore[arg-type]
        for path in (f"/dead?group={group}", f"/dead/{letter[0]}?group={group}"):
            assert (SECRET in browser.get(path).text) is sees, (role, path)
        assert browser.get(f"/dead?group={group}").status_code == 200
        assert sees or SECRET not in browser.get(f"/events/{group}/{letter[1]}").text
