"""What can go wrong with a vendor: whether it may pass, whose fault it is, and a sentence for people."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import openai

from engine.providers.spec import Endpoint

#: The request is at fault, not the vendor: asking again would not help, and others' requests may succeed.
REQUEST_AT_FAULT = frozenset({400, 404, 405, 409, 413, 415, 422})
TIMEOUT, TOO_MANY = 408, 429
#: Characters of a vendor's own words in a message.
MAX_QUOTE = 200


class Unusable(Exception):  # noqa: N818 – its name says what happened
    """Something came back that is no answer in this protocol."""


def is_request_at_fault(error: BaseException) -> bool:
    return isinstance(error, openai.APIStatusError) and error.status_code in REQUEST_AT_FAULT


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in (TIMEOUT, TOO_MANY) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError)  # time-outs among them


def retry_after(error: BaseException | None) -> float | None:
    """Seconds that the vendor asks to wait: a number, or a date (RFC 9110)."""
    if not isinstance(error, openai.APIStatusError):
        return None
    said = error.response.headers.get("retry-after", "").strip()
    try:
        return max(float(said), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def explain(error: Exception, endpoint: Endpoint, seconds: float) -> str:
    """One sentence: who, what, and what to do; ``seconds`` is what one try was given. Never holds the key."""
    at = f"{endpoint.spec.vendor} ({endpoint.address})"
    if isinstance(error, openai.APIStatusError):
        return f"{at} {_of_status(error, endpoint)}"
    if isinstance(error, openai.APITimeoutError):
        return f"{at} did not answer within {seconds:g} s: check it, or raise {endpoint.setting}_TIMEOUT"
    if isinstance(error, openai.APIConnectionError):
        return f"{at} cannot be reached ({_root_of(error)}): check the address, the network and that it runs"
    if isinstance(error, Unusable):
        what = "an address for /rerank" if endpoint.purpose == "rerank" else "an OpenAI-compatible address"
        return f"{at} answered {error}: check that {endpoint.setting}_BASE_URL is {what}"
    return f"{at} failed: {type(error).__name__}"


def _of_status(error: openai.APIStatusError, endpoint: Endpoint) -> str:
    model, setting = endpoint.spec.model, endpoint.setting
    match error.status_code:
        case status if 300 <= status < 400:
            return (
                f"redirects to {_target(error, endpoint)} ({status}), where nothing is sent: set {setting}_BASE_URL to the address itself"
            )
        case 401 | 403 as status:  # its words may quote the key
            return f"refuses the key ({status}): check {endpoint.key_names}"
        case 404:
            return f"knows no model {model!r} or no such address (404): check {setting} and {setting}_BASE_URL"
        case 429:
            wait = retry_after(error)
            asked = "" if wait is None else f", asks to wait {wait:g} s"
            return f"has had too many requests or its quota is used up (429{asked}): {_quote(error, endpoint)}"
        case status if status >= 500:
            return f"failed on its side ({status}): wait, or ask the vendor"
        case status:
            return f"refuses the request for {model!r} ({status}): {_quote(error, endpoint)}"


def _target(error: openai.APIStatusError, endpoint: Endpoint) -> str:
    """Where a redirect points to, without its query, which may hold anything."""
    location = error.response.headers.get("location", "").partition("?")[0]
    return repr(_shown(location, endpoint)) if location else "an address that it does not name"


def _quote(error: openai.APIStatusError, endpoint: Endpoint) -> str:
    """The vendor's own words, as far as they can be stored and shown. A reranker's are not: they may quote memories to other groups."""
    if endpoint.purpose == "rerank":
        return "its own words are not kept"
    return _shown(str(error.message), endpoint)


def _shown(text: str, endpoint: Endpoint) -> str:
    said = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if endpoint.api_key is not None:
        said = said.replace(endpoint.api_key.get_secret_value(), "…")
    return said[:MAX_QUOTE]


def _root_of(error: BaseException) -> str:
    """What the operating system said, under the SDK's wrapping."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)[:MAX_QUOTE] or type(error).__name__
