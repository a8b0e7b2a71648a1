"""The pages on skills and workflows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import SignIn
from tests.integration.growth.growing import AGENT, STEPS, artifacts, chain, end, experienced, feedback, run, save

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


@pytest.fixture
def grown(group: str) -> str:
    experienced(group)
    for session in ("s1", "s2", "s3"):
        save([*chain(group, session, "search", "mail"), end(group, session)])
    run()
    save([feedback(group, artifacts(group)[0].id, comment="worked at once")])
    run()
    return group


def test_lists_show_what_waits_and_the_page_of_an_agent_what_it_did(grown: str, sign_in: SignIn) -> None:
    browser = sign_in("viewer", groups=[grown])
    page = browser.get("/growth", query_string={"group": grown})
    assert page.status_code == 200
    assert "printer" in page.text
    found: Any = browser.get("/growth.json", query_string={"group": grown, "kind": "workflows", "status": "pending"}).json
    assert [row["name"] for row in found["rows"]] == ["search → mail"]
    page = browser.get(f"/growth/agents/{grown}/{AGENT}")
    assert page.status_code == 200
    assert "find the invoice" in page.text
    assert browser.get(f"/growth/agents/{grown}/nobody").status_code == 404


def test_the_page_of_one_shows_its_evidence_and_of_two_who_confirm_at_once_one_is_told(grown: str, sign_in: SignIn) -> None:
    [skill] = artifacts(grown)
    first, second = sign_in("admin", groups=[grown]), sign_in("admin", groups=[grown])
    page = first.get(f"/growth/skills/{skill.id}", query_string={"group": grown})
    assert page.status_code == 200
    for text in (*STEPS, "worked at once", "proposed", "a vote was given", "Confirm", "Decline"):
        assert text in page.text, text
    [workflow] = artifacts(grown, "pipeline")
    page = sign_in("viewer", groups=[grown]).get(f"/growth/workflows/{workflow.id}", query_string={"group": grown})
    assert page.status_code == 200
    assert "find the invoice" in page.text
    assert "Decline" not in page.text
    stranger, asked = sign_in("admin", groups=[f"{grown}-other"]), {"group": f"{grown}-other"}
    assert stranger.get(f"/growth/skills/{skill.id}", query_string=asked).status_code in (403, 404)
    assert stranger.post(f"/growth/skills/{skill.id}/accept", query_string=asked).status_code in (403, 404)
    where = {"path": f"/growth/skills/{skill.id}/accept", "query_string": {"group": grown}, "data": {"reason": "good"}}
    assert first.post(**where).status_code in (204, 303)
    answer = second.post(**where)
    assert answer.status_code == 409
    assert "decided by" in answer.text
