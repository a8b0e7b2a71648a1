"""docs/client.md names every verb of the client."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from jiyi import Client

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.md"
ROW = re.compile(r"^\| (itself|`\w+`) \| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)


def verbs(of: object) -> set[str]:
    return {name for name, member in inspect.getmembers(type(of)) if not name.startswith("_") and not isinstance(member, property)}


def test_every_verb_of_the_client_is_in_the_table_of_its_namespace_and_no_other() -> None:
    client = Client("docs", transport=cast("Any", SimpleNamespace()))
    spaces = {name: of for name, of in vars(client).items() if not name.startswith("_") and type(of).__module__.startswith("jiyi.client.")}
    told: dict[str, set[str]] = {}
    for place, names in ROW.findall(PAGE.read_text(encoding="utf-8")):
        told.setdefault(place.strip("`"), set()).update(re.findall(r"\w+", names))
    assert told == {"itself": verbs(client)} | {name: verbs(of) for name, of in spaces.items()}
