"""engine.erasure: whose name stands in a text; engine.operations: what a log line may say."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine import operations
from engine.erasure import Names, Whom, folded, hash_of, unescaped
from jiyi.errors import LLMUnavailable, SettingsError
from jiyi.protocol.erasure import Erasure
from tests.unit.text.labelled import labelled

#: Unlike any word of the code.
WORD = "Quillfeather"


@labelled
def test_a_name_of_any_script_is_found_as_whole_words_however_it_is_written(
    name: str, text: str | None, found: bool
) -> None:
    assert Names([name]).found_in(text) is found


def test_a_name_is_found_behind_escapes() -> None:
    names = Names(["玛丽亚", "𠮷田"])
    once = json.dumps({"a": "和玛丽亚"})
    for text in (once, json.dumps({"body": once}), json.dumps("𠮷田"), ascii("玛丽亚")):
        assert "玛" not in text
        assert names.found_in(text)
    assert unescaped("\\ud800 and \\u0041") == "\ufffd and A"


@given(st.text(min_size=1), st.text(max_size=20), st.text(max_size=20))
def test_a_name_between_spaces_is_always_found(name: str, before: str, after: str) -> None:
    if sum(char.isalnum() for char in name) < 2 or folded(name) != folded(name.strip()):
        return
    assert Names([name]).found_in(f"{before} \x01{name}\x01 {after}")


def test_an_agent_is_found_where_something_is_said_to_be_of_it() -> None:
    whom = Whom(agents=["klaus", 'a "quoted" one'])
    named = ["klaus", "erase\x01klaus", '{"agent_id": "klaus"}', '{"agents": {"klaus": 2}}', '["g", "klaus"]']
    others = ["klaus said", '{"subject": "klaus"}', "nicklaus", '{"agent_id": "klaus2"}']
    quoted = json.dumps({"agent": 'a "quoted" one'})
    assert [text for text in (*named, quoted, *others) if whom.is_named_in(text)] == [*named, quoted]


@pytest.mark.parametrize(
    "wrong",
    [
        *({}, {"person": "M"}, {"person": "。。"}, {"node_ids": []}, {"person": "Ma\x00ria"}),
        *({"agent_id": "a", "person": "Maria"}, {"agent_id": "a", "aliases": ["Maria"]}),
        {"person": "Maria", "aliases": ["x"]},
    ],
)
def test_a_request_names_one_thing(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Erasure.model_validate(wrong)


def test_a_hash_does_not_depend_on_how_a_name_is_written() -> None:
    known = hash_of("Maria Lopez", b"secret")
    assert hash_of("ＭＡＲＩＡ　ＬＯＰＥＺ ", b"secret") == known
    assert known not in (hash_of("Maria Lope", b"secret"), hash_of("Maria Lopez", b"another secret"))


@pytest.fixture
def _made_in_a_service() -> Iterator[None]:
    """Log records as they are made in a service; installed twice, it is there once."""
    before = logging.getLogRecordFactory()
    operations.install()
    installed = logging.getLogRecordFactory()
    operations.install()
    assert logging.getLogRecordFactory() is installed
    yield
    logging.setLogRecordFactory(before)


def logged(message: object, *args: object, error: BaseException | None = None) -> str:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.getLogger("jiyi").makeRecord("jiyi", logging.WARNING, __file__, 1, message, args, info)
    return logging.Formatter("%(message)s").format(record)


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except type(error):
        found = sys.exc_info()[1]
        assert found is not None
        return found


@pytest.mark.usefixtures("_made_in_a_service")
def test_no_words_of_an_error_are_logged_and_those_that_are_nobodys_are() -> None:
    error = raised(ValueError(f"cannot take {WORD}"), raised(KeyError(WORD)))
    for line in (
        logged("it failed: %s", error),
        logged(error),
        logged("it failed", error=error),
        logged("%(exc)s", {"exc": error}),
    ):
        assert WORD not in line
        assert "ValueError" in line
    assert __file__ in logged("it failed", error=error)
    assert "KeyError" in logged("it failed", error=error)
    assert "set JIYI_X" in logged("%s", SettingsError("set JIYI_X"))
    assert "Connection refused" in logged("%s", ConnectionRefusedError(111, "Connection refused"))
    assert "cannot be reached" in logged("%s", LLMUnavailable("the vendor cannot be reached"))
    away = LLMUnavailable(f"the vendor refuses: {WORD}")
    away.status = 400
    assert logged("%s", away) == "llm_unavailable (400)"


def test_only_names_of_fields_are_told_of_a_refusal() -> None:
    known = {"payload", "poignancy", "keywords", "type"}
    reason = (
        f"payload.poignancy: too small (got '{WORD}: 1; payload.{WORD}: x'); payload.keywords.3: too long;"
        f" {WORD}: no"
    )
    assert operations.fields_in(reason, known) == "payload.poignancy, payload.keywords.3"
    assert operations.fields_in(WORD, known) == "the message as a whole"
