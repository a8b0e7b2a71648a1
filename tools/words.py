"""Words that docs/glossary.md says to avoid, where people read and in code: ``python -m tools.words``.

The column *not* of the glossary's tables is the list. Pages, messages, the command line and documents may
have none of them; code may have :data:`IN_CODE`, a number that only falls. Text in code style, which names
something on the wire, does not count. Exits with 1 and the places if there are more.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = "docs/glossary.md"
CATALOGUE = "web/translations/zh/LC_MESSAGES/messages.po"
COMMANDS = "jiyi/cli/commands.json"
LAYERS = ("jiyi/", "engine/", "models/", "tasks/", "workers/", "web/")
#: Places in code that still have one of the words: names of fields and states on the wire, columns, and
#: words that rules look for in texts. Lower it when there are fewer.
IN_CODE = 87
#: Words of the list that are right in another sense, so that only a reader can tell.
ORDINARY = frozenset("place touch head filling".split())

_CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)\s]*\)|^ *<!--.*?-->", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(r"\{[{%#].*?[}%#]\}|<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.DOTALL)
_STRINGS = re.compile(r'"[^"\n]*"|\'[^\'\n]*\'|`[^`]*`')
Place = tuple[str, int, str]


def avoided(glossary: str) -> list[str]:
    """The words of the column ``not``, in the tables' order."""
    words: list[str] = []
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and cells[0] != "term" and not set(cells[3]) <= set("- "):
            words += [word for part in cells[3].split(",") if (word := part.strip())]
    return [word for word in dict.fromkeys(words) if word not in ORDINARY]


def pattern(words: list[str]) -> re.Pattern[str]:
    """Finds the words, each whole; ``owe…`` with its endings."""
    forms = (re.escape(word).replace("…", "(?:s|d|ing)?") for word in words)
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(forms)})(?![^\W_])", re.IGNORECASE)


def main() -> int:
    words = pattern(avoided((ROOT / GLOSSARY).read_text(encoding="utf-8")))
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    people = [found for path in tracked for found in _matches(path, _for_people(path), words)]
    code = [found for path in tracked for found in _matches(path, _of_code(path), words)]
    for path, line, word in people if len(code) <= IN_CODE else [*people, *code]:
        print(f"{path}:{line}: {word}")
    print(f"people: {len(people)} (0 allowed), code: {len(code)} ({IN_CODE} allowed)")
    return int(bool(people) or len(code) > IN_CODE)


def _matches(path: str, texts: Iterator[tuple[int, str]], words: re.Pattern[str]) -> Iterator[Place]:
    for line, text in texts:
        for match in words.finditer(text):
            yield path, line + text.count("\n", 0, match.start()), match.group()


def _for_people(path: str) -> Iterator[tuple[int, str]]:
    """What people read of a file, each with its line."""
    if path == CATALOGUE:
        with (ROOT / path).open("rb") as file:
            for message in read_po(file):
                text = message.id if isinstance(message.id, str) else " ".join(message.id)
                yield message.lineno or 0, text
    elif path == COMMANDS:
        yield 1, without_code(json.dumps(json.loads(_read(path))))
    elif path.startswith("web/templates/"):
        yield 1, _MARKUP.sub(_blank, _read(path))
    elif re.fullmatch(r"web/static/[a-z_]+\.js", path):
        for match in _STRINGS.finditer(text := _read(path)):
            yield 1 + text.count("\n", 0, match.start()), match.group()
    elif (path.startswith("docs/") and path.endswith(".md") and path != GLOSSARY) or path == "README.md":
        yield 1, without_code(_read(path))


def _of_code(path: str) -> Iterator[tuple[int, str]]:
    """Names, comments and texts of a module, each with its line."""
    if not (path.startswith(LAYERS) and path.endswith(".py")):
        return
    for token in tokenize.generate_tokens(io.StringIO(_read(path)).readline):
        yield token.start[0], without_code(token.string)


def without_code(text: str) -> str:
    """Markdown with spaces in the place of code and addresses."""
    return _CODE.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
