"""Signing in by a provider of OpenID Connect: whose account it is the provider says, what they may do its
claims (``JIYI_OIDC_FILE``).

A person is known by the provider's ``sub``, not by a name or an address, which others can come to have: an
account never takes over another, local ones included. Role and groups are those of the claims at each time of
signing in.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Annotated, Any

import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.flask_client import OAuth
from flask import Blueprint, Flask, current_app, redirect, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from joserfc.errors import JoseError
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from jiyi.errors import SettingsError, problems_of
from jiyi.protocol.accounts import ROLES, Role
from jiyi.protocol.base import Name
from jiyi.settings import get_settings
from models.accounts import sign_in as signing_in
from web.accounts import sessions, signin

log = logging.getLogger(__name__)
blueprint = Blueprint("single_sign_on", __name__)

#: Seconds that the provider may take for an answer.
PROVIDER_SECONDS = 10
#: In place of names of groups: every one.
ALL_GROUPS = "*"
#: What a name may not have in it (``jiyi.protocol.accounts.UserName``), and its length.
_NOT_IN_A_NAME, MAX_NAME = re.compile(r"[^\w.@+-]+"), 64


class OidcProvider(BaseModel):
    """The content of ``JIYI_OIDC_FILE``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: As its tokens name it; its documents are at ``/.well-known/openid-configuration`` below it.
    issuer: Annotated[str, Field(pattern=r"^(https://|http://(localhost|127\.0\.0\.1)[:/])\S+$")]
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: SecretStr
    #: On the button.
    label: Annotated[str, Field(min_length=1, max_length=60)] = "OpenID Connect"
    scope: str = "openid profile email"
    #: The claim that a new person is called by, and the one that lists what the person belongs to.
    name_claim: str = "email"
    groups_claim: str = "groups"
    #: Value of that claim → role; of several the one that may most. Who has none is not let in.
    roles: dict[str, Role]
    #: Value of that claim → groups of Jiyi, or ``*``. An operator has all.
    groups: dict[str, list[Name]] = {}

    def role_of(self, values: list[str]) -> Role | None:
        roles = {self.roles[value] for value in values if value in self.roles}
        return next((role for role in ROLES if role in roles), None)

    def groups_of(self, values: list[str], role: Role) -> list[str] | None:
        """None: all; an empty list: none."""
        groups = {group for value in values for group in self.groups.get(value, [])}
        return None if role == "operator" or ALL_GROUPS in groups else sorted(groups)


def read(path: str) -> OidcProvider:
    """Raises :class:`SettingsError`, which never quotes the secret."""
    try:
        return OidcProvider.model_validate(json.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"JIYI_OIDC_FILE: {path}: {error.strerror}") from None
    except ValidationError as error:
        raise SettingsError(
            f"JIYI_OIDC_FILE: {path}: {'; '.join(problems_of(error, OidcProvider))}"
        ) from None
    except ValueError as error:
        raise SettingsError(f"JIYI_OIDC_FILE: {path} is not JSON: {error}") from None


def register(app: Flask) -> None:
    """With a file; without one this module is not loaded. Raises as :func:`read`."""
    provider = read(get_settings().oidc_file)
    client = OAuth(app).register(
        "oidc",
        client_id=provider.client_id,
        client_secret=provider.client_secret.get_secret_value(),
        server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": provider.scope,
            "code_challenge_method": "S256",
            "default_timeout": PROVIDER_SECONDS,
        },
    )
    app.extensions["jiyi.oidc"] = provider, client
    app.extensions[signin.PROVIDER] = provider.label
    app.register_blueprint(blueprint)


@blueprint.get("/sign-in/oidc")
def begin() -> ResponseReturnValue:
    """To the provider, which sends the browser back to :func:`finish`."""
    signin.only_where_the_cookie_stays()
    provider, client = current_app.extensions["jiyi.oidc"]
    for name in [name for name in session if name.startswith("_state_")]:
        # Authlib keeps each attempt for an hour; browsers drop a cookie that a few have made too large.
        del session[name]
    session["next"] = signin.safe(request.args.get("next", ""))
    try:
        answer: ResponseReturnValue = client.authorize_redirect(url_for(".finish", _external=True))
    except (requests.RequestException, ValueError, RuntimeError):
        return signin.sign_in_page(
            502,
            _(
                "%(provider)s does not answer. Try again, or sign in with a password.",
                provider=provider.label,
            ),
        )
    return answer


@blueprint.get("/sign-in/oidc/back")
def finish() -> ResponseReturnValue:
    signin.only_where_the_cookie_stays()
    provider, client = current_app.extensions["jiyi.oidc"]
    try:
        issuer = {"iss": {"essential": True, "values": [provider.issuer]}}
        claims = client.authorize_access_token(claims_options=issuer).get("userinfo") or {}
    except requests.RequestException:
        return signin.sign_in_page(
            502,
            _(
                "%(provider)s does not answer. Try again, or sign in with a password.",
                provider=provider.label,
            ),
        )
    except (OAuthError, JoseError, ValueError, RuntimeError, KeyError) as error:
        log.warning("signing in by the provider failed: %s", type(error).__name__)
        claims = {}
    if not claims.get("sub"):  # in our own words: anybody can make an address with the provider's
        return signin.sign_in_page(
            403, _("%(provider)s did not let you in. Try again.", provider=provider.label)
        )
    values = _values(claims.get(provider.groups_claim))
    role = provider.role_of(values)
    groups = provider.groups_of(values, role) if role else []
    name = _NOT_IN_A_NAME.sub("-", str(claims.get(provider.name_claim) or claims["sub"]))[:MAX_NAME]
    address = request.remote_addr or ""
    if role is None or groups == []:
        signing_in.refuse_from_provider(name, address)
        message = _(
            "You have no role here. The operator of the service can give you one at %(provider)s.",
            provider=provider.label,
        )
        return signin.sign_in_page(403, message)
    user = signing_in.from_provider(f"{provider.issuer}|{claims['sub']}", name, role, groups, address)
    if user is None:
        message = _(
            "The name %(name)s belongs to another account here, or yours is disabled. Ask the operator of the"
            " service.",
            name=name,
        )
        return signin.sign_in_page(403, message)
    back = session.get("next", "")
    sessions.begin(user)
    return redirect(signin.safe(back), 303)


def _values(claim: Any) -> list[str]:
    """The values of a claim: a provider sends a list, or a single value."""
    return [str(value) for value in claim] if isinstance(claim, list) else [str(claim)] if claim else []
