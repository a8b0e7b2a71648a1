"""How an extra of this package is installed: from where the package itself was, the checkout or the wheel's
file (PEP 610).
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

#: Of this package, with the service beside it where it is a checkout.
FOLDER = Path(__file__).parents[1]


def install_command(extra: str) -> str:
    """The command that adds an extra to the installation that is running."""
    if (FOLDER / "workers").is_dir() and (FOLDER / "pyproject.toml").exists():
        return f"pip install -e '{FOLDER}[{extra}]'"
    try:
        origin = distribution("jiyi").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    if origin is None:  # from an index
        return f"pip install 'jiyi[{extra}]'"
    url: str = json.loads(origin)["url"]
    if url.startswith("file:"):
        return f"pip install '{url2pathname(urlsplit(url).path)}[{extra}]'"
    return f"pip install 'jiyi[{extra}] @ {url}'"
