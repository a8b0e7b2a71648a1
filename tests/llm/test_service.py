"""The service with a small real model: extraction whose server is stopped in the middle, usage, and the proxy
before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import OpenAI
from sqlalchemy import text

from engine.providers import llms
from engine.providers.llm_prompts import on_usage
from jiyi import Client
from jiyi.polling import poll
from jiyi.proxy.app import ProxyConfig, Upstream, make_app
from models.db.connection import unit_of_work
from models.operations import numbers
from tests.integration.conftest import _nothing_is_held_back, _own_keeper, api_key, nothing_owed, service
from tests.integration.conversations.talk import hurry, nodes, owed, run, say
from tests.integration.proxy.test_proxy import PATIENCE, ask, serving, turns
from tests.llm.conftest import OTHER, OTHER_MODEL, SECONDS, TOKENS, Model, forget
from tests.misbehaving import Request, Vendor
from tests.services import _sees_everything
from workers.ephemeral import environment

__all__ = ["_nothing_is_held_back", "_own_keeper", "_sees_everything", "api_key", "nothing_owed", "service"]


@pytest.fixture
def asked(database: Any, wire: Vendor) -> Iterator[None]:
    """Work in this process asks the model, whatever it can do, and what it uses is counted in the
    database.
    """
    settings = {"llm": f"compatible:{OTHER_MODEL}", "llm_base_url": wire.base_url, "llm_trial_days": "0"}
    with environment(**settings, llm_timeout=str(SECONDS), llm_max_tokens=str(TOKENS)):
        llms.llm.cache_clear()
        on_usage(numbers.record_usage)
        yield
        on_usage(None)
    forget()


def used(group: str) -> dict[str, int]:
    with unit_of_work() as connection:
        return dict(connection.execute(_USED, {"group": group}).mappings().one())


_USED = text("""
    SELECT sum(calls)::int AS calls, sum(questions)::int AS questions, sum(prompt_tokens)::int AS
    prompt_tokens,
        sum(completion_tokens)::int AS completion_tokens
    FROM llm_usage WHERE group_id = :group
""")


@pytest.mark.usefixtures("asked", "nothing_owed")
def test_extraction_goes_on_where_its_server_was_stopped_and_all_tokens_are_counted(
    group: str, wire: Vendor, model: Model
) -> None:
    if OTHER:
        pytest.skip("another server is not ours to stop")
    answer = wire.otherwise

    def once(request: Request) -> Any:
        reply = answer(request)
        model.stop()
        return reply

    say(
        group,
        "I work as a nurse in Turku.",
        ("assistant", "Nice."),
        "My sister lives in Oslo.",
        session_id="s1",
    )
    wire.otherwise = once
    hurry()
    run()
    assert len(wire.requests) >= 1
    assert owed() != []  # the server is away: the rest waits
    assert [row for row in nodes(group) if row["superseded_by"] is not None] == []
    wire.otherwise = answer
    model.start()
    forget()
    hurry()
    run()
    assert owed() == []
    assert [row for row in nodes(group) if row["superseded_by"] is not None] == []
    counts = [json.loads(reply.body).get("usage", {}) for reply in wire.replies if reply.status == 200]  # type: ignore[attr-defined]
    found = used(group)
    assert found["prompt_tokens"] == sum(count["prompt_tokens"] for count in counts)
    assert found["completion_tokens"] == sum(count["completion_tokens"] for count in counts)
    assert found["questions"] >= 1


def test_a_program_with_the_official_client_is_remembered_before_a_real_model(
    service: str, unlimited_web: int, api_key: Callable[..., str], wire: Vendor
) -> None:
    web, upstream = f"http://127.0.0.1:{unlimited_web}", Upstream(wire.base_url, "none")
    config = ProxyConfig(service=web, openai=upstream, anthropic=upstream, agent="mia", recall_seconds=20.0)
    with serving(make_app(config)) as address:
        client = OpenAI(
            api_key=api_key(service, "publish", "read"), base_url=f"{address}/v1", timeout=SECONDS
        )
        more = {"max_tokens": 24, "temperature": 0}
        said = ask(client, "I am allergic to peanuts.", **more)
        assert said
        assert ask(client, "I am allergic to peanuts.", said, "Thank you.", stream=True, **more)
        recorded = turns(service, "mia", 4)
        assert any("allergic to peanuts" in one for one in recorded)
        with Client(service) as jiyi:
            poll(
                lambda: jiyi.conversations.context(agent_id="mia", query="What am I allergic to?").context,
                lambda found: "peanuts" in found,
                PATIENCE,
            )
        assert ask(client, "Suggest a snack. What am I allergic to?", stream=True, **more)
    sent = wire.requests[-1].body["messages"]
    assert "peanuts" in json.dumps(sent)
    assert sent[-1]["content"].endswith("Suggest a snack. What am I allergic to?")
    assert "peanuts" not in json.dumps(wire.requests[0].body["messages"][:-1])
