"""Make the virtual environment: ``python3 tools/install.py .venv``. Needs nothing but Python's own library.

Two at once in one checkout take turns; what is up to date is left alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
NEEDED = (3, 11)
#: The checkout itself on the path: setuptools' other way comes after the folders on the path, where a
#: checkout that is called ``jiyi`` and stands beside a script would be taken for the package.
EDITABLE = ["--config-settings", "editable_mode=compat", "--editable"]
LOCK_FILE = CHECKOUT / "requirements.lock"


def main(folder: Path) -> None:
    if sys.version_info < NEEDED:
        sys.exit(
            f"Jiyi needs Python 3.11 or newer; this is {sys.version.split()[0]}: make PYTHON=python3.13 …"
        )
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / ".installed"
        wanted = fingerprint()
        if not stamp.exists() or stamp.read_text() != wanted:
            install(folder)
        run([str(folder / "bin" / "python"), "-m", "tools.translations", "--compile"])
        stamp.write_text(wanted)  # also when nothing was done: make goes by its time


def fingerprint() -> str:
    """Changes when an installation would come out differently."""
    parts = [
        LOCK_FILE.read_bytes(),
        (CHECKOUT / "pyproject.toml").read_bytes(),
        Path(__file__).read_bytes(),
        sys.version.encode(),
        str(CHECKOUT).encode(),
    ]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def install(folder: Path) -> None:
    print(f"installing into {folder} (once; about a minute) …", flush=True)
    run([sys.executable, "-m", "venv", str(folder)], hint="on Debian and Ubuntu: apt install python3-venv")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    run([*pip, "--requirement", str(LOCK_FILE)])
    run([*pip, "--no-deps", *EDITABLE, str(CHECKOUT)])


def run(command: list[str], hint: str = "the reason is above") -> None:
    if subprocess.run(command, cwd=CHECKOUT, check=False).returncode:
        sys.exit(f"failed: {' '.join(command)} ({hint})")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
