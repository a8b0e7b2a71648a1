"""How a vendor is called: bounded in time and size, tried again where that helps, left alone where it does
not.

Whatever goes wrong ends as one error that names the vendor, what it said and what to do about it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx2
import openai
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_any,
    stop_before_delay,
)
from tenacity.wait import wait_random_exponential

from engine.providers import breakers
from engine.providers.calls import Operation, calling
from engine.providers.spec import Endpoint, PublicTransport
from jiyi.errors import ProviderUnavailable
from jiyi.once import once_each
from jiyi.protocol.base import JsonObject

#: Largest answer that is read, in bytes.
MAX_BODY_BYTES = 64 * 1024 * 1024
#: Longest ``Retry-After`` that is waited for, else the work is put off for at most so long. Seconds.
MAX_RETRY_AFTER, LONGEST_HOLD = 20.0, 3_600.0
#: Waits between tries without ``Retry-After``: random, so that workers do not come back together. Seconds.
BACKOFF = wait_random_exponential(multiplier=0.5, max=8)
#: In place of the name of a model that a tenant has chosen.
TENANTS_OWN = "tenants-own"
#: Paths of the request; only the last one's answer may be a list.
EMBEDDINGS, CHAT, RERANK = "/embeddings", "/chat/completions", "/rerank"
OPERATIONS: Mapping[str, Operation] = {EMBEDDINGS: "embeddings", CHAT: "chat", RERANK: "rerank"}
#: How server-sent events begin.
STREAM = (b"data:", b"event:")
#: Asks the SDK for the answer as it comes, unread.
RAW_RESPONSE_HEADER = "X-Stainless-Raw-Response"
#: With this a proxy of Jiyi's records none of the memories in what the service asks itself.
NOT_REMEMBERED = {"X-Jiyi-Memory": "off"}
#: Sent where none is needed: the SDK wants one.
NO_KEY = "none"

# A line a call would drown the workers' logs.
logging.getLogger("httpx2").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How long to try. ``call``: seconds of one try. ``total``: seconds after which no new try begins.

    ``answered`` is called when an answer has come, before it is parsed: the vendor has nothing more to do for
    this call. ``again``: whether a call that took too long is retried unchanged.
    """

    call: float
    tries: int = 3
    total: float = 60.0
    again: bool = True
    answered: Callable[[], None] = lambda: None


class ProviderClient:
    """One vendor's endpoint. Thread-safe."""

    def __init__(
        self,
        endpoint: Endpoint,
        unavailable: type[ProviderUnavailable],
        reset_seconds: float = breakers.RESET_SECONDS,
    ) -> None:
        self.endpoint = endpoint
        self._unavailable = unavailable
        self._reset_seconds = reset_seconds

    def embeddings(self, body: Mapping[str, Any], patience: RetryLimits) -> JsonObject:
        """The JSON object that ``POST …/embeddings`` answers.

        Raises:
            ProviderUnavailable: as the class given; its ``status`` is the HTTP status, if there was one.
        """
        return cast("JsonObject", self._post(EMBEDDINGS, body, patience))

    def chat(self, body: Mapping[str, Any], patience: RetryLimits) -> JsonObject:
        """The JSON object that ``POST …/chat/completions`` answers. Raises as :meth:`embeddings`."""
        return cast("JsonObject", self._post(CHAT, body, patience))

    def rerank(self, body: Mapping[str, Any], patience: RetryLimits) -> Any:
        """The JSON that ``POST …/rerank`` answers: an object or a list. Raises as :meth:`embeddings`."""
        return self._post(RERANK, body, patience)

    def _post(self, path: str, body: Mapping[str, Any], patience: RetryLimits) -> Any:
        endpoint = self.endpoint
        if endpoint.api_key is None and endpoint.preset.needs_key:
            raise self._unavailable(f"{endpoint.spec.vendor} needs a key: set {endpoint.key_names}")
        if remaining := breakers.hold_seconds(endpoint.breaker):
            reason = f"has asked to be left alone for another {remaining:.0f} s"
            failure = self._unavailable(f"{endpoint.spec.vendor} {reason}")
            failure.retry_after = remaining
            raise failure

        def helps(error: BaseException) -> bool:
            return is_transient(error) and (patience.again or not _is_late(error))

        retrying = Retrying(
            retry=retry_if_exception(helps),
            wait=_wait,
            stop=stop_any(stop_after_attempt(patience.tries), stop_before_delay(patience.total)),
            reraise=True,
        )
        try:
            model = TENANTS_OWN if endpoint.tenant else endpoint.spec.model  # which one is theirs to know
            with calling(OPERATIONS[path], endpoint.spec.vendor, model, body) as call:
                answer = retrying(self._try, path, body, patience)
                call.answered(answer)
                return answer
        except breakers.Open:
            raise self._unavailable(self._why_open()) from None
        except (openai.OpenAIError, UnusableResponse) as error:
            failure = self._unavailable(explain(error, endpoint, patience.call))
            failure.timed_out = _is_late(error)
            if isinstance(error, openai.APIStatusError):
                failure.status, failure.words = error.status_code, str(error.message)[:MAX_WORDS]
            failure.retry_after = min(retry_after(error) or 0.0, LONGEST_HOLD)
            if failure.retry_after > MAX_RETRY_AFTER:
                breakers.hold(endpoint.breaker, failure.retry_after)
        breakers.note_error(endpoint.breaker, str(failure), late=failure.timed_out)
        raise failure

    def _try(self, path: str, body: Mapping[str, Any], patience: RetryLimits) -> Any:
        return breakers.call(
            self.endpoint.breaker,
            lambda: self._ask(path, body, patience),
            blameless=is_blameless,
            reset_seconds=self._reset_seconds,
        )

    def _ask(self, path: str, body: Mapping[str, Any], patience: RetryLimits) -> Any:
        endpoint = self.endpoint
        key = NO_KEY if endpoint.api_key is None else endpoint.api_key.get_secret_value()
        client = _client(endpoint.base_url, key, bool(endpoint.tenant))
        until = time.monotonic() + patience.call
        raw = {RAW_RESPONSE_HEADER: "stream"}
        options: openai.RequestOptions = {"timeout": patience.call, "headers": raw}
        response = client.post(path, cast_to=httpx2.Response, body=dict(body), options=options)
        content = bytearray()
        try:
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_BODY_BYTES:
                    raise UnusableResponse(f"more than {MAX_BODY_BYTES:,} bytes")
                if time.monotonic() > until:  # the SDK's time-out is between two pieces, which may be small
                    raise openai.APITimeoutError(request=response.request)
        except httpx2.TimeoutException as error:
            raise openai.APITimeoutError(request=response.request) from error
        except httpx2.HTTPError as error:  # cut off in the middle, where the SDK does not look
            raise openai.APIConnectionError(request=response.request) from error
        finally:
            response.close()
        patience.answered()
        return _json(bytes(content), path)

    def _why_open(self) -> str:
        state = breakers.read_state(self.endpoint.breaker, self._reset_seconds)
        last = f"; the last: {state.last_error}" if state.last_error else ""
        return (
            f"{self.endpoint.spec.vendor} is not called for {self._reset_seconds:g} s after"
            f" {breakers.FAIL_MAX} failures in a row{last}"
        )


class _HttpClient(openai.DefaultHttpxClient):
    """Follows no redirect: it would take prompts, memories and the key to a host that nobody has chosen."""

    def __del__(self) -> None:
        self.close()  # the SDK does so with clients of its own making only


@once_each(16)
def _client(base_url: str, api_key: str, public_only: bool) -> openai.OpenAI:
    # Its retries are off: ours also know the breaker and the time that is left.
    transport = PublicTransport() if public_only else None
    http_client = _HttpClient(follow_redirects=False, transport=transport, trust_env=not public_only)
    return openai.OpenAI(
        base_url=base_url,
        api_key=api_key,
        max_retries=0,
        http_client=http_client,
        default_headers=NOT_REMEMBERED,
    )


def _json(content: bytes, path: str) -> Any:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):  # includes bytes that are no text, and brackets by the thousand
        if content.lstrip().startswith(STREAM):
            fix = "it has to answer requests without `stream` in one piece"
            raise UnusableResponse("a stream of events", fix) from None
        raise UnusableResponse("something that is not JSON") from None
    if not isinstance(answer, dict | list if path == RERANK else dict):
        raise UnusableResponse("JSON that is no object")
    return answer


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    seconds = retry_after(error)
    if seconds is None:
        return BACKOFF(state)
    # Longer than we wait: no further try (``stop_before_delay``).
    return seconds if seconds <= MAX_RETRY_AFTER else float("inf")


#: The request is at fault, not the vendor: no use to ask again. A wrong model (404) is everybody's.
REQUEST_AT_FAULT = frozenset({400, 409, 413, 415, 422})
TIMEOUT, TOO_MANY = 408, 429
#: Characters of a vendor's own words in a message, and of those that are read to find out what is wrong.
MAX_QUOTE, MAX_WORDS = 200, 4_000


class UnusableResponse(Exception):  # noqa: N818 – its name says what happened
    """What came back is no answer in this protocol. ``fix``: what to do, unless the address is wrong."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix


def is_blameless(error: BaseException) -> bool:
    """Whether a vendor's refusal is no failure of its own: of one request, or until a time that it names."""
    return isinstance(error, openai.APIStatusError) and (
        error.status_code in REQUEST_AT_FAULT or bool(retry_after(error))
    )


def _is_late(error: BaseException) -> bool:
    return isinstance(error, openai.APITimeoutError)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in (TIMEOUT, TOO_MANY) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError)  # time-outs among them


def retry_after(error: BaseException | None) -> float | None:
    """Seconds that the vendor asks to wait: a number, or a date (RFC 9110)."""
    if not isinstance(error, openai.APIStatusError):
        return None
    header = error.response.headers.get("retry-after", "").strip()
    try:
        return max(float(header), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def explain(error: Exception, endpoint: Endpoint, seconds: float) -> str:
    """One sentence: who, what, and what to do; ``seconds`` is what one try was given. Never holds the key."""
    at = f"{endpoint.spec.vendor} ({endpoint.address})"
    if isinstance(error, openai.APIStatusError):
        return f"{at} {_of_status(error, endpoint)}"
    if isinstance(error, openai.APITimeoutError):
        if endpoint.purpose != "chat":
            return f"{at} did not answer within {seconds:g} s: check it"
        return f"{at} did not answer within {seconds:g} s: check it, or raise {endpoint.setting}_TIMEOUT"
    if isinstance(error, openai.APIConnectionError):
        return f"{at} cannot be reached ({_root_of(error)}): check the address, the network and that it runs"
    if isinstance(error, UnusableResponse):
        what = "an address for /rerank" if endpoint.purpose == "rerank" else "an OpenAI-compatible address"
        return f"{at} answered {error}: {error.fix or f'check that {endpoint.address_setting} is {what}'}"
    return f"{at} failed: {type(error).__name__}"


def _of_429(wait: float | None, words: str) -> str:
    if wait is None:
        return f"has had too many requests or its quota is used up (429): {words}"
    return f"has had too many requests or its quota is used up (429, asks to wait {wait:g} s): {words}"


def _of_status(error: openai.APIStatusError, endpoint: Endpoint) -> str:
    model, address = endpoint.spec.model, endpoint.address_setting
    match error.status_code:
        case status if 300 <= status < 400:
            to = f"redirects to {_target(error, endpoint)} ({status})"
            return f"{to}, where nothing is sent: set {address} to the address itself"
        case 401 | 403 as status:  # its words may quote the key
            return f"refuses the key ({status}): check {endpoint.key_names}"
        case 404:
            setting = endpoint.setting
            return f"knows no model {model!r} or no such address (404): check {setting} and {address}"
        case 429:
            return _of_429(retry_after(error), _quote(error, endpoint))
        case status if status >= 500:
            return f"failed on its side ({status}): wait, or ask the vendor"
        case status:
            return f"refuses the request for {model!r} ({status}): {_quote(error, endpoint)}"


def _target(error: openai.APIStatusError, endpoint: Endpoint) -> str:
    """Where a redirect points to, without its query, which may hold anything."""
    location = error.response.headers.get("location", "").partition("?")[0]
    return repr(_shown(location, endpoint)) if location else "an address that it does not name"


def _quote(error: openai.APIStatusError, endpoint: Endpoint) -> str:
    """The vendor's own words; not a reranker's, which may quote memories to other groups."""
    if endpoint.purpose == "rerank":
        return "its own words are not kept"
    return _shown(str(error.message), endpoint)


def _shown(text: str, endpoint: Endpoint) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if endpoint.api_key is not None:
        line = line.replace(endpoint.api_key.get_secret_value(), "…")
    return line[:MAX_QUOTE]


def _root_of(error: BaseException) -> str:
    """What the operating system said, under the SDK's wrapping."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)[:MAX_QUOTE] or type(error).__name__
