"""What a request may do at the upstream: with a key of the caller's own whatever it likes, with the
deployment's ask models and no more.

All callers share the account of the deployment's key. So that key is lent for exact pairs of method and path,
with headers and query parameters from a list, and for no request that names what an account stores: another
caller may have stored it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
from starlette.datastructures import Headers
from starlette.requests import Request

from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.wire.bounds import names_in
from jiyi.protocol.wire.json_checks import keys_in, repeated_key, sentence
from jiyi.protocol.wire.signatures import FORM, parse_key


class ProxyRefusal(Exception):  # noqa: N818 – its name says what it is
    """The proxy's own answer instead of the upstream's."""

    def __init__(self, status: int, kind: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def invalid(message: str, status: int = 400) -> ProxyRefusal:
    """What is wrong with a request."""
    return ProxyRefusal(status, "invalid_request_error", message)


#: Requests with JSON that ask a model, and for which the deployment's key is lent.
ASKING = frozenset({"chat/completions", "messages", "responses", "embeddings"})
#: The list of models, and one model by its name.
MODELS = re.compile(r"models(/(?!\.{1,2}$)[\w.:-]{1,200})?", re.ASCII)
#: Paths that every server and every proxy before it reads the same way: nothing to decode, no parameters, no
#: empty names.
PATH = re.compile(r"[\w.:@~+=,-]+(/[\w.:@~+=,-]+)*/?", re.ASCII)
#: Query parameters that are sent with the deployment's key: Anthropic's betas, and pages of the list of
#: models.
LENT_QUERY = frozenset({"beta", "limit", "after_id", "before_id", "api-version"})

#: Headers that belong to one connection (RFC 9110), and those that the HTTP client sets itself.
OF_CONNECTION = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade host"
    " content-length accept-encoding".split()
)
#: Headers with a key, and those that are for the proxy and no concern of the upstream.
KEY_HEADERS, OWN_HEADERS = ("authorization", "x-api-key"), ("x-jiyi-", "x-openwebui-")
#: Headers that are sent with the deployment's key: none chooses an organization, a project or who is billed.
LENT_HEADERS = frozenset(
    {"accept", "content-type", "user-agent", "anthropic-version", "traceparent", "tracestate"}
)
#: Anthropic's betas that are about what an account stores; the others are sent with the deployment's key.
STORING_BETAS = ("files-api", "code-execution", "skills", "message-batches", "managed-agents")
#: With which every key of Jiyi's begins.
KEY_MARK = "jiyi_"

#: Fields that name, or make, what an account stores; besides, those whose names end in ``_id`` and ``_ids`` …
STORED = frozenset(
    {"store", "background", "conversation", "container", "prompt", "file_uri", "cached_content"}
)
ID_ENDINGS = ("_id", "_ids")
#: … except for these, which name what is in the request itself, or people.
IDS_WITHIN = frozenset(
    {"tool_call_id", "tool_use_id", "call_id", "approval_request_id", "user_id", "request_id"}
)
#: Fields whose values are the program's own, such as the schemas of tools, and no requests of the upstream.
OWN_DATA = frozenset(
    "parameters input_schema output_schema schema json_schema arguments metadata plugins "
    "client_metadata internal_chat_message_metadata_passthrough".split()  # Codex's, for logs
)
CALLS_OF_TOOLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
#: An item of which nothing but these is given is looked up by its ``id``.
OF_A_REFERENCE = frozenset({"id", "type", "status", "summary"})


def checked_path(path: str) -> str:
    """A path below ``/v1``, decoded once. Raises :class:`ProxyRefusal` for one that may mean another path."""
    if {".", ".."} & set(path.split("/")):
        raise invalid("the path must not leave /v1")
    if PATH.fullmatch(path) is None:
        raise invalid("the path: letters, digits and _ . : @ ~ + = , - between single slashes, please")
    return path


def refuse_other_sites(request: Request) -> None:
    """Browsers send what any page asks for, and the proxy may have a key of its own.

    Raises:
        ProxyRefusal: it comes from a page of another site.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if foreign or site not in ("none", "same-origin"):
        raise ProxyRefusal(
            403, "permission_error", "this proxy is for programs, and not for pages of other sites"
        )


def is_asking(request: Request, path: str) -> bool:
    """Whether it asks a model, with JSON. Raises :class:`ProxyRefusal` if it asks with something else."""
    if request.method != "POST" or path not in ASKING:
        return False
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != CONTENT_TYPE or "content-encoding" in request.headers:
        raise invalid(f"the header Content-Type must be {CONTENT_TYPE}, without Content-Encoding", 415)
    return True


def refuse_unless_lent(request: Request, path: str) -> None:
    """Raises :class:`ProxyRefusal` for what the deployment's key of the upstream is not lent for."""
    if not (is_asking(request, path) or (request.method == "GET" and MODELS.fullmatch(path))):
        needs = f"{request.method} /v1/{path[:100]} needs a key of your own for the upstream"
        raise ProxyRefusal(403, "permission_error", needs)


def keys_sent(headers: Headers) -> tuple[str, dict[str, str]]:
    """The first key of Jiyi's; and the headers with the caller's own key for the upstream, none of Jiyi's."""
    ours = ""
    theirs: dict[str, str] = {}
    for name in KEY_HEADERS:
        for value in headers.getlist(name):
            key = (value.split() or [""])[-1]
            if parse_key(key) is not None:
                ours = ours or key
            elif key and key.lower() != "bearer" and KEY_MARK not in value:
                theirs.setdefault(name, value)
    return ours, theirs


def passed_headers(headers: Headers, theirs: Mapping[str, str]) -> httpx2.Headers:
    """What is sent with the caller's own key, or else with the deployment's."""
    of_connection = {
        name.strip().lower() for value in headers.getlist("connection") for name in value.split(",")
    }
    dropped = OF_CONNECTION | set(KEY_HEADERS) | of_connection
    passed = [
        (name, value)
        for name, value in headers.items()
        if name not in dropped and not name.startswith(OWN_HEADERS) and FORM.search(value) is None
    ]
    if not theirs:
        betas = [beta.strip() for value in headers.getlist("anthropic-beta") for beta in value.split(",")]
        betas = [beta for beta in betas if beta and not beta.startswith(STORING_BETAS)]
        passed = [(name, value) for name, value in passed if name in LENT_HEADERS]
        passed += [("anthropic-beta", ",".join(betas))] if betas else []
    # What passes is read, too.
    return httpx2.Headers([*passed, *theirs.items(), ("accept-encoding", "identity")])


def passed_query(request: Request, *, lent: bool) -> str:
    """The query that is sent on."""
    if not lent:
        return request.url.query
    return urlencode(
        [(name, value) for name, value in request.query_params.multi_items() if name in LENT_QUERY]
    )


def refuse_stored(content: bytes, body: Mapping[str, Any]) -> None:
    """Raises :class:`ProxyRefusal` if a request names what an account stores, or is read in two ways."""
    if names_in(content) != keys_in(body) and (repeated := repeated_key(content)) is not None:
        raise invalid(sentence(repeated))
    place = next(_stored(body), None)
    if place is not None:
        problem = f"{place}: names what the account behind this proxy stores"
        instead = "leave it out, or send a key of your own for the upstream"
        raise ProxyRefusal(403, "permission_error", f"{problem}; {instead}")


#: Where something stands: what it is in, and its name or place there. Written out for a refusal only: of a
#: long name with many parts each would have its own copy.
_Path = tuple["_Path | None", object]


def _stored(body: Mapping[str, Any]) -> Iterator[str]:
    # No recursion: how deep it is nested is somebody else's choice.
    waiting: list[tuple[Any, _Path | None]] = [(body, None)]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, list):
            waiting += [(part, (path, place)) for place, part in enumerate(value) if _has_parts(part)]
            continue
        kind = value.get("type")
        fields = {name for name, part in value.items() if part not in (None, "", [], {})}
        if kind == "item_reference" or ("id" in fields and fields <= OF_A_REFERENCE):
            yield _written((path, "id"))
        for name, part in value.items():
            if part and (name in STORED or (name.endswith(ID_ENDINGS) and name not in IDS_WITHIN)):
                yield _written((path, name))
            own = name in OWN_DATA or (name == "input" and isinstance(kind, str) and kind in CALLS_OF_TOOLS)
            if not own and _has_parts(part):
                waiting.append((part, (path, name)))


def _has_parts(value: Any) -> bool:
    return isinstance(value, (dict, list))


def _written(path: _Path | None) -> str:
    names = []
    while path is not None:
        path, name = path
        names.append(str(name))
    return ".".join(reversed(names))
