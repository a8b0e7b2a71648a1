"""Which files a store may read and write: those in the folders of ``JIYI_STORE_ROOTS``, and in the group's own.

A path is looked at as the file system sees it, after ``..`` and symbolic links: what points out of the folders is refused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from jiyi.errors import ConfigError
from jiyi.settings import get_settings

SETTING = "JIYI_STORE_ROOTS"
#: In the home, the folder with one folder for each group.
OWN_FOLDER = "stores"
#: Of a file's or folder's name: the limit of Linux's file systems.
MAX_NAME_BYTES = 255
#: Trees that hold no files, but the state of processes and devices: nothing of them is read, whatever the setting says.
PSEUDO = tuple(Path(one) for one in ("/proc", "/sys", "/dev"))


def roots(group_id: str, *, written: bool = False) -> list[Path]:
    """The folders whose files stores of the group may read, resolved: those of the setting.

    ``written``: where they may be saved to, and loaded from. That is the group's own folder, too; but the default of the setting, the
    service's own pages, is for reading alone.
    """
    names = [one.strip() for one in get_settings().store_roots.split(os.pathsep) if one.strip()]
    given = [Path(one.replace("{group}", _file_name(group_id))).resolve() for one in names]
    if not written:
        return given
    return [own_folder(group_id).resolve(), *(given if "store_roots" in get_settings().model_fields_set else [])]


def is_within(path: Path, allowed: Sequence[Path]) -> bool:
    """Whether a resolved path is in one of these folders.

    What is below the home is only in those that are there themselves: a folder around it, such as ``/``, does not open what the service
    keeps, and what stores are saved to is no source of another one.
    """
    home = get_settings().home.resolve()
    kept = path.is_relative_to(home)
    return not is_pseudo(path) and any(path.is_relative_to(one) and (not kept or one.is_relative_to(home)) for one in allowed)


def own_folder(group_id: str) -> Path:
    """Where relative ``memory_path`` and ``index_path`` of the group lead to."""
    return get_settings().home / OWN_FOLDER / _file_name(group_id)


def is_pseudo(path: Path) -> bool:
    """Whether a resolved path is in a tree of processes or devices."""
    return any(path.is_relative_to(tree) for tree in PSEUDO)


def source_path(group_id: str, given: str, field: str) -> Path:
    """A file or folder to be read, resolved; a relative one where the service runs.

    Raises:
        ConfigError: it is in none of the folders. Whether it exists is not said.
    """
    return _within(group_id, Path(), given, field)


def kept_path(group_id: str, given: str, field: str) -> Path:
    """A ``.json`` file to be read and written, resolved; a relative one in the group's own folder.

    Raises:
        ConfigError: it is in none of the folders, or no ``.json`` file.
    """
    if Path(given).suffix.lower() != ".json":
        raise ConfigError([f"{field}: only .json files are loaded and saved; got {Path(given).name[:60]!r}"])
    return _within(group_id, own_folder(group_id), given, field, written=True)


def _within(group_id: str, folder: Path, given: str, field: str, *, written: bool = False) -> Path:
    """The path, relative to the folder, resolved. What is said of a wrong one names what was given, and no folder of the service."""
    if "\0" in given:
        raise ConfigError([f"{field}: a path has no NUL character"])
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in Path(given).parts):
        raise ConfigError([f"{field}: a file's or folder's name is longer than {MAX_NAME_BYTES} bytes (UTF-8); give it a shorter one"])
    try:
        found = (folder / given).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links, a name that is too long
        raise ConfigError([f"{field}: cannot be looked up: {type(error).__name__}"]) from None
    if not is_within(found, roots(group_id, written=written)):
        raise ConfigError([f"{field}: {given[:200]!r} is in none of the folders that {SETTING} names"])
    return found


def _file_name(group_id: str) -> str:
    """The group's name as the name of a folder, different for different groups. Of a long one its digest: ``%-`` is in no quoted name."""
    name = quote(group_id, safe="")
    if len(name) > MAX_NAME_BYTES:
        return f"%-{hashlib.sha256(group_id.encode()).hexdigest()}"
    return name if name.strip(".") else name.replace(".", "%2E")
