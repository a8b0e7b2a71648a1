"""jiyi.protocol.wire.calls: replies out and back."""

from __future__ import annotations

import json
from collections import Counter
from uuid import UUID

import pytest

from jiyi.errors import BY_CODE, ConfigError, InvalidEvent, InvalidRequest, JiyiError, ServiceError
from jiyi.protocol.retrieval import Answer, Debug, FocalAnswer
from jiyi.protocol.wire.calls import open_reply, reply_of, reply_of_error, retrieval_queue, retrieval_queues

OTHERS = [cls for cls in BY_CODE.values() if not issubclass(cls, InvalidRequest | InvalidEvent)]


@pytest.mark.parametrize("cls", OTHERS)
def test_an_error_is_raised_again_as_its_own_class(cls: type[JiyiError]) -> None:
    with pytest.raises(JiyiError, match=r"^cannot reach 记忆$") as caught:
        open_reply(reply_of_error(cls("cannot reach 记忆")))
    assert type(caught.value) is cls


@pytest.mark.parametrize("cls", [InvalidEvent, InvalidRequest, ConfigError])
def test_a_refusal_keeps_all_its_problems(cls: type[InvalidRequest]) -> None:
    for problems in (["top_k: too small"], [f"f{i}: 不对" for i in range(12)], []):
        original = cls(problems)
        with pytest.raises(JiyiError) as caught:
            open_reply(reply_of_error(original))
        assert type(caught.value) is cls
        assert caught.value.problems == problems
        assert str(caught.value) == str(original)


def test_the_error_of_a_newer_service_is_a_service_error() -> None:
    reply = json.dumps({"error": {"code": "out_of_tea", "message": "no tea left", "problems": None}})
    with pytest.raises(ServiceError, match="no tea left"):
        open_reply(reply)


def test_a_value_comes_back_as_it_was_and_is_no_error() -> None:
    nested = [{"记忆": ['\\ " \0', 2**60, None]}]
    for value in (None, 0, "", [], {}, False, 1.5, {"error": {"code": "x"}}, {"value": 1}, nested):
        assert open_reply(reply_of(value)) == value
        assert open_reply(reply_of(value).decode()) == value


def test_a_model_travels_as_its_own_json() -> None:
    words = '房租 " \\ é'
    debug = Debug(mode=words, min_score=0.1 + 0.2, total_candidates=2**40)
    group = FocalAnswer(query=words, status="ok", message=words, accessed_ids=[UUID(int=7)], debug=debug)
    answer = Answer(status="ok", groups=[group])
    assert json.loads(reply_of(answer)) == {"value": answer.model_dump(mode="json")}
    assert Answer.model_validate(open_reply(reply_of(answer))) == answer


def test_an_agent_always_has_the_same_queue_and_agents_spread_evenly() -> None:
    assert retrieval_queue("g", "klaus", 1) == "retrieval"
    spread = Counter(retrieval_queue("g", f"agent {i} 记忆", 4) for i in range(4_000))
    assert set(spread) == set(retrieval_queues(4))
    assert min(spread.values()) > 800
    assert retrieval_queue("a", "bc", 64) != retrieval_queue("ab", "c", 64)  # names are not run together
