"""OAuth 2.1 for hosts of MCP that take no API key (``JIYI_MCP_URL``): a person who is signed in lets a
program in.

Registration (RFC 7591) stores nothing: a ``client_id`` is the signed registration itself. Clients are public,
so PKCE (S256) binds a code to the client that requested it. Errors of a request for consent are shown, not
sent to its redirect_uri: anybody may register one.
"""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from flask import Blueprint, Flask, Response, abort, current_app, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from itsdangerous import BadSignature, URLSafeSerializer
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator
from pydantic_core import to_json

from jiyi.errors import first_errors, problems_of
from jiyi.settings import get_settings
from models.accounts import connections
from models.accounts.connections import Tokens
from models.accounts.users import User
from web.accounts import sessions
from web.accounts.api_keys import limits
from web.accounts.identity import who
from web.admin import frame

blueprint = Blueprint("oauth", __name__)
#: Rights that a program can be given; the whole service is for people and keys.
SCOPES = ("read", "publish", "admin")
GRANTS = ("authorization_code", "refresh_token")
METADATA, REGISTER, TOKEN, REVOKE = (
    "/.well-known/oauth-protected-resource",
    "/api/oauth/register",
    "/api/oauth/token",
    "/api/oauth/revoke",
)
MAX_CLIENT_ID, MAX_STATE = 6_000, 2_000
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
#: Without a fragment; the port is checked separately.
_REDIRECT = re.compile(
    r"(?:https://[A-Za-z0-9.-]+|http://(?:localhost|127\.0\.0\.1))(?::([1-9][0-9]{0,4}))?(?:/[!\"$-~]*)?"
)
MAX_PORT = 65_535


ClientName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f]+$")
]


class Client(BaseModel):
    """What is kept of a registration."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    client_name: ClientName = "MCP"
    redirect_uris: Annotated[list[Annotated[str, Field(max_length=500)]], Field(min_length=1, max_length=5)]

    @field_validator("redirect_uris")
    @classmethod
    def _only_safe(cls, uris: list[str]) -> list[str]:
        if wrong := next((uri for uri in uris if not _is_safe(uri)), None):
            raise ValueError(
                f"{wrong!r} must be https, or http on localhost or 127.0.0.1, with a port up to 65535 and"
                " without a fragment"
            )
        return uris

    def takes(self, redirect_uri: str) -> bool:
        """As registered; a program on the person's machine may have another port each time (RFC 8252)."""
        loose = [_portless(uri) for uri in self.redirect_uris if uri.startswith("http:")]
        return redirect_uri in self.redirect_uris or _portless(redirect_uri) in loose


class Asked(BaseModel):
    """A request for consent, once it is found good."""

    client_id: str
    redirect_uri: str
    challenge: str
    scopes: list[str]
    state: str
    client: Client


def register(app: Flask) -> None:
    """With ``JIYI_MCP_URL``; without it this module is not loaded."""
    app.register_blueprint(blueprint)


def resource() -> str:
    return get_settings().mcp_url


def issuer() -> str:
    """The web's own address: a reverse proxy shows it and MCP at one name."""
    parts = urlsplit(resource())
    return f"{parts.scheme}://{parts.netloc}"


@blueprint.get(METADATA)
@blueprint.get(f"{METADATA}/<path:path>")
def protected_resource(path: str | None = None) -> ResponseReturnValue:
    """RFC 9728."""
    _count()
    if path is not None and f"/{path}" != urlsplit(resource()).path:
        abort(404)
    return {
        "resource": resource(),
        "authorization_servers": [issuer()],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "Jiyi 记忆",
    }


@blueprint.get("/.well-known/oauth-authorization-server")
def authorization_server() -> ResponseReturnValue:
    """RFC 8414."""
    _count()
    return {
        "issuer": issuer(),
        "authorization_endpoint": f"{issuer()}/oauth/authorize",
        "token_endpoint": f"{issuer()}{TOKEN}",
        "registration_endpoint": f"{issuer()}{REGISTER}",
        "revocation_endpoint": f"{issuer()}{REVOKE}",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "grant_types_supported": list(GRANTS),
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }


@blueprint.post(REGISTER)
def register_client() -> ResponseReturnValue:
    """RFC 7591."""
    _count()
    try:
        client = Client.model_validate_json(request.get_data())
    except ValidationError as error:
        of_uris = any(item["loc"][:1] == ("redirect_uris",) for item in first_errors(error))
        return _refused(
            "invalid_redirect_uri" if of_uris else "invalid_client_metadata",
            "; ".join(problems_of(error, Client)),
        )
    client_id = str(_signed().dumps(client.model_dump()))
    kept = {"client_id": client_id, "scope": " ".join(SCOPES), **client.model_dump()}
    known = {"token_endpoint_auth_method": "none", "grant_types": list(GRANTS), "response_types": ["code"]}
    return _json({**kept, **known}, 201)


@blueprint.get("/oauth/authorize")
def ask() -> ResponseReturnValue:
    """The page on which a person says yes or no. The gate has led them here by way of signing in."""
    asked, user = _asked(), _user()
    allowed = [scope for scope in asked.scopes if scope in user.scopes]
    groups = frame.groups() or [get_settings().group]
    host = urlsplit(asked.redirect_uri).netloc
    shown = {"asked": asked, "allowed": allowed, "offered": groups, "host": host, "name": user.name}
    return render_template("consent.html", resource=resource(), **shown)


@blueprint.post("/oauth/authorize")
def consent() -> ResponseReturnValue:
    asked, user = _asked(), _user()
    if request.form.get("answer") != "yes":
        return _back(asked, error="access_denied")
    group_id = request.form.get("group", "")
    if not group_id or group_id not in frame.groups():
        abort(400, _("Choose one of your groups."))
    wanted = {*asked.scopes} & {*request.form.getlist("allow")} & user.scopes
    scopes = [scope for scope in SCOPES if scope in wanted]
    if not scopes:
        abort(400, _("Give the program at least one right, or refuse."))
    of_client = {"client_id": asked.client_id, "client": asked.client.client_name}
    code = connections.begin(
        user, group_id, scopes, redirect_uri=asked.redirect_uri, challenge=asked.challenge, **of_client
    )
    if code is None:
        most = connections.MAX_CONNECTIONS
        abort(
            429,
            _(
                "You have %(most)s connections already. End some of them on the page of your account.",
                most=most,
            ),
        )
    return _back(asked, code=code)


@blueprint.post(TOKEN)
def token() -> ResponseReturnValue:
    _count()
    form = request.form
    names = "client_id redirect_uri code refresh_token code_verifier resource".split()
    given = {name: form.get(name, "") for name in names}
    if _registered(given["client_id"]) is None:
        return _refused(
            "invalid_client", "client_id: not registered here, or no longer: register and connect again", 401
        )
    if not _same_resource(given["resource"]):
        return _refused("invalid_target", f"resource: must be {resource()}")
    match form.get("grant_type"):
        case "authorization_code":
            if VERIFIER.fullmatch(given["code_verifier"]) is None:
                return _refused(
                    "invalid_request",
                    "code_verifier: 43 to 128 characters, of which code_challenge was the SHA-256",
                )
            challenge = create_s256_code_challenge(given["code_verifier"])
            where = {"client_id": given["client_id"], "redirect_uri": given["redirect_uri"]}
            made = connections.exchange(given["code"], challenge=challenge, **where)
        case "refresh_token":
            made = connections.refresh(given["refresh_token"], client_id=given["client_id"])
        case _:
            return _refused("unsupported_grant_type", f"grant_type: must be one of {', '.join(GRANTS)}")
    if made is None:
        return _refused(
            "invalid_grant",
            "it is wrong, used, expired or revoked, or its person may not do this any more: connect again",
        )
    return _told(made)


@blueprint.post(REVOKE)
def revoke() -> ResponseReturnValue:
    """RFC 7009: nothing is said of what is not known."""
    _count()
    connections.revoke(request.form.get("token", ""), client_id=request.form.get("client_id", ""))
    return _json({})


def _asked() -> Asked:
    """The request for consent, of the address or of its form; 400 with what is wrong with it."""
    given = request.values
    client_id, redirect_uri = given.get("client_id", ""), given.get("redirect_uri", "")
    client = _registered(client_id)
    if client is None:
        abort(
            400,
            _(
                "The program is not registered here (client_id). Remove its connection there and connect"
                " again."
            ),
        )
    if not _is_safe(redirect_uri) or not client.takes(redirect_uri):
        abort(
            400,
            _("The program wants to be answered at an address that it has not registered (redirect_uri)."),
        )
    if given.get("response_type") != "code":
        abort(400, "response_type: must be code.")
    challenge = given.get("code_challenge", "")
    if given.get("code_challenge_method") != "S256" or CHALLENGE.fullmatch(challenge) is None:
        abort(400, "code_challenge: must be there, with code_challenge_method=S256.")
    if not _same_resource(given.get("resource", "")):
        abort(400, f"resource: must be {resource()}.")
    wanted = given.get("scope", "").split() or list(SCOPES)
    scopes = [scope for scope in SCOPES if scope in wanted]
    if not scopes:
        abort(400, f"scope: must have some of {', '.join(SCOPES)}.")
    state = given.get("state", "")
    if len(state) > MAX_STATE:
        abort(400, f"state: longer than {MAX_STATE:,} characters.")
    whose: dict[str, Any] = {"client_id": client_id, "redirect_uri": redirect_uri, "client": client}
    return Asked(challenge=challenge, scopes=scopes, state=state, **whose)


def _back(asked: Asked, **told: str) -> ResponseReturnValue:
    """To the program, by a page of ours: browsers forbid a form's answer to lead elsewhere (form-action)."""
    query = urlencode({**told, **({"state": asked.state} if asked.state else {}), "iss": issuer()})
    address = f"{asked.redirect_uri}{'&' if '?' in asked.redirect_uri else '?'}{query}"
    return render_template(
        "connected.html", address=address, client=asked.client.client_name, connected="code" in told
    )


def _same_resource(given: str) -> bool:
    """RFC 8707; older hosts do not say for which resource."""
    return not given or given.rstrip("/") == resource().rstrip("/")


def _user() -> User:
    who()
    return sessions.current() or abort(401)


def _signed() -> URLSafeSerializer:
    return URLSafeSerializer(current_app.secret_key or "", salt="oauth client")


def _registered(client_id: str) -> Client | None:
    """The registration that a client_id is; None if it is none of ours."""
    try:
        return Client.model_validate(_signed().loads(client_id[:MAX_CLIENT_ID]))
    except (BadSignature, ValidationError):
        return None


def _is_safe(redirect_uri: str) -> bool:
    """Whether a program may be answered there."""
    match = _REDIRECT.fullmatch(redirect_uri)
    return match is not None and int(match[1] or 0) <= MAX_PORT


def _portless(address: str) -> tuple[str, str | None, str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.path, parts.query


def _count() -> None:
    limits().count_anonymous(request.remote_addr or "")


def _told(made: Tokens) -> Response:
    bearer = {"access_token": made.access, "token_type": "Bearer", "expires_in": connections.TOKEN_SECONDS}
    return _json({**bearer, "refresh_token": made.refresh, "scope": " ".join(made.scopes)})


def _refused(error: str, description: str, status: int = 400) -> Response:
    return _json({"error": error, "error_description": description}, status)


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(to_json(content), status, mimetype="application/json")
