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
from models.accounts.connections import OAuthTokens
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


class RegisteredClient(BaseModel):
    """What a client_id holds of a registration."""

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


class ConsentRequest(BaseModel):
    """A request for consent, once it is found good."""

    client_id: str
    redirect_uri: str
    challenge: str
    scopes: list[str]
    state: str
    client: RegisteredClient


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
        client = RegisteredClient.model_validate_json(request.get_data())
    except ValidationError as error:
        of_uris = any(item["loc"][:1] == ("redirect_uris",) for item in first_errors(error))
        return _refused(
            "invalid_redirect_uri" if of_uris else "invalid_client_metadata",
            "; ".join(problems_of(error, RegisteredClient)),
        )
    client_id = str(_signed().dumps(client.model_dump()))
    registration = {"client_id": client_id, "scope": " ".join(SCOPES), **client.model_dump()}
    methods = {"token_endpoint_auth_method": "none", "grant_types": list(GRANTS), "response_types": ["code"]}
    return _json({**registration, **methods}, 201)


@blueprint.get("/oauth/authorize")
def ask() -> ResponseReturnValue:
    """The page on which a person says yes or no. The gate has led them here by way of signing in."""
    consent_request, user = _consent_request(), _user()
    allowed = [scope for scope in consent_request.scopes if scope in user.scopes]
    groups = frame.groups() or [get_settings().group]
    host = urlsplit(consent_request.redirect_uri).netloc
    context = {
        "consent": consent_request,
        "allowed": allowed,
        "offered": groups,
        "host": host,
        "name": user.name,
    }
    return render_template("consent.html", resource=resource(), **context)


@blueprint.post("/oauth/authorize")
def consent() -> ResponseReturnValue:
    consent_request, user = _consent_request(), _user()
    if request.form.get("answer") != "yes":
        return _back(consent_request, error="access_denied")
    group_id = request.form.get("group", "")
    if not group_id or group_id not in frame.groups():
        abort(400, _("Choose one of your groups."))
    granted = {*consent_request.scopes} & {*request.form.getlist("allow")} & user.scopes
    scopes = [scope for scope in SCOPES if scope in granted]
    if not scopes:
        abort(400, _("Give the program at least one right, or refuse."))
    of_client = {"client_id": consent_request.client_id, "client": consent_request.client.client_name}
    code = connections.begin(
        user,
        group_id,
        scopes,
        redirect_uri=consent_request.redirect_uri,
        challenge=consent_request.challenge,
        **of_client,
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
    return _back(consent_request, code=code)


@blueprint.post(TOKEN)
def token() -> ResponseReturnValue:
    _count()
    form = request.form
    names = "client_id redirect_uri code refresh_token code_verifier resource".split()
    parameters = {name: form.get(name, "") for name in names}
    if _registered(parameters["client_id"]) is None:
        return _refused(
            "invalid_client", "client_id: not registered here, or no longer: register and connect again", 401
        )
    if not _same_resource(parameters["resource"]):
        return _refused("invalid_target", f"resource: must be {resource()}")
    match form.get("grant_type"):
        case "authorization_code":
            if VERIFIER.fullmatch(parameters["code_verifier"]) is None:
                return _refused(
                    "invalid_request",
                    "code_verifier: 43 to 128 characters, of which code_challenge was the SHA-256",
                )
            challenge = create_s256_code_challenge(parameters["code_verifier"])
            where = {"client_id": parameters["client_id"], "redirect_uri": parameters["redirect_uri"]}
            tokens = connections.exchange(parameters["code"], challenge=challenge, **where)
        case "refresh_token":
            tokens = connections.refresh(parameters["refresh_token"], client_id=parameters["client_id"])
        case _:
            return _refused("unsupported_grant_type", f"grant_type: must be one of {', '.join(GRANTS)}")
    if tokens is None:
        return _refused(
            "invalid_grant",
            "it is wrong, used, expired or revoked, or its person may not do this any more: connect again",
        )
    return _token_answer(tokens)


@blueprint.post(REVOKE)
def revoke() -> ResponseReturnValue:
    """RFC 7009: nothing is said of what is not known."""
    _count()
    connections.revoke(request.form.get("token", ""), client_id=request.form.get("client_id", ""))
    return _json({})


def _consent_request() -> ConsentRequest:
    """The request for consent, of the address or of its form; 400 with what is wrong with it."""
    parameters = request.values
    client_id, redirect_uri = parameters.get("client_id", ""), parameters.get("redirect_uri", "")
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
    if parameters.get("response_type") != "code":
        abort(400, "response_type: must be code.")
    challenge = parameters.get("code_challenge", "")
    if parameters.get("code_challenge_method") != "S256" or CHALLENGE.fullmatch(challenge) is None:
        abort(400, "code_challenge: must be there, with code_challenge_method=S256.")
    if not _same_resource(parameters.get("resource", "")):
        abort(400, f"resource: must be {resource()}.")
    requested = parameters.get("scope", "").split() or list(SCOPES)
    scopes = [scope for scope in SCOPES if scope in requested]
    if not scopes:
        abort(400, f"scope: must have some of {', '.join(SCOPES)}.")
    state = parameters.get("state", "")
    if len(state) > MAX_STATE:
        abort(400, f"state: longer than {MAX_STATE:,} characters.")
    whose: dict[str, Any] = {"client_id": client_id, "redirect_uri": redirect_uri, "client": client}
    return ConsentRequest(challenge=challenge, scopes=scopes, state=state, **whose)


def _back(to: ConsentRequest, **answer: str) -> ResponseReturnValue:
    """To the program, by a page of ours: browsers forbid a form's answer to lead elsewhere (form-action)."""
    query = urlencode({**answer, **({"state": to.state} if to.state else {}), "iss": issuer()})
    address = f"{to.redirect_uri}{'&' if '?' in to.redirect_uri else '?'}{query}"
    return render_template(
        "connected.html", address=address, client=to.client.client_name, connected="code" in answer
    )


def _same_resource(address: str) -> bool:
    """RFC 8707; older hosts do not say for which resource."""
    return not address or address.rstrip("/") == resource().rstrip("/")


def _user() -> User:
    who()
    return sessions.current() or abort(401)


def _signed() -> URLSafeSerializer:
    return URLSafeSerializer(current_app.secret_key or "", salt="oauth client")


def _registered(client_id: str) -> RegisteredClient | None:
    """The registration that a client_id is; None if it is none of ours."""
    try:
        return RegisteredClient.model_validate(_signed().loads(client_id[:MAX_CLIENT_ID]))
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


def _token_answer(tokens: OAuthTokens) -> Response:
    bearer = {"access_token": tokens.access, "token_type": "Bearer", "expires_in": connections.TOKEN_SECONDS}
    return _json({**bearer, "refresh_token": tokens.refresh, "scope": " ".join(tokens.scopes)})


def _refused(error: str, description: str, status: int = 400) -> Response:
    return _json({"error": error, "error_description": description}, status)


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(to_json(content), status, mimetype="application/json")
