"""What a copy of one's own needs before the web starts: a secret to sign with, and somebody who may sign in."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from jiyi import Client
from jiyi.errors import SettingsError
from jiyi.protocol.accounts import AddPerson, hash_password, make_password
from jiyi.protocol.wire.signatures import key_of, need_secret_key
from jiyi.settings import SECRET_FILE, get_settings
from models.accounts import users
from models.accounts.actions import add_person
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service

SECRET_BYTES = 32
#: Who runs the copy.
ADMIN = "admin"
#: The key of those who try the copy: its name, and the file in the home that keeps it.
KEY_NAME, KEY_FILE = "make run", "try_key"


def secret_key(home: Path) -> str:
    """The one that is set, else this home's own, which is made when it is first asked for.

    Raises:
        SettingsError: the one that is set is too short, or the file is there, but empty.
    """
    if get_settings().secret_key.get_secret_value():
        return need_secret_key(get_settings())
    file = home / SECRET_FILE
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as made:
            made.write(secrets.token_hex(SECRET_BYTES))
    except FileExistsError:
        pass
    key = file.read_text(encoding="ascii").strip()
    if not key:
        raise SettingsError(f"JIYI_SECRET_KEY: {file} is empty; delete it, and another one is made")
    return key


def program_key(home: Path, group: str) -> str:
    """A key of the group that may publish and read, for whoever tries this copy; made once, and kept beside the data.

    A key that was revoked, or of another group, is replaced.
    """
    file = home / KEY_FILE
    with Client(group) as client:
        known = {key.key_id for key in client.keys.list() if key.revoked_at is None and key.expires_at is None}
        kept = file.read_text(encoding="ascii").strip() if file.exists() else ""
        if kept and (found := key_of(kept)) is not None and found.key_id in known:
            return kept
        made = client.keys.create(KEY_NAME).text
    file.touch(mode=0o600)
    file.write_text(made, encoding="ascii")
    return made


def create_admin() -> str | None:
    """Make the first person of a service that has none; the password, which nobody can look up later."""
    with whole_service(), unit_of_work() as connection:
        if users.any_at_all(connection):
            return None
    password = make_password()
    first = AddPerson(name=ADMIN, password_hash=hash_password(password), role="operator")
    add_person.perform(Actor(get_settings().group, "jiyi up", operator=True), first)
    return password
