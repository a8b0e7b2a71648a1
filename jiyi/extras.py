"""How an extra of this package is installed: from where the package itself was, the wheel's file or the checkout (PEP 610)."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


def install_command(extra: str) -> str:
    """The command that adds an extra to the installation that is running."""
    try:
        origin = distribution("jiyi").read_text("direct_url.json")
    except PackageNotFoundError:  # a checkout that is only on the path
        return f"pip install -e '{Path(__file__).parents[1]}[{extra}]'"
    if origin is None:  # from an index
        return f"pip install 'jiyi[{extra}]'"
    known = json.loads(origin)
    if not known["url"].startswith("file:"):
        return f"pip install 'jiyi[{extra}] @ {known['url']}'"
    editable = "-e " if known.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{url2pathname(urlsplit(known['url']).path)}[{extra}]'"
