"""How a person's names, or an agent's, are recognised in a text (``docs/tenants.md``)."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable

from jiyi.text.words import CJK, nfkc

#: Scripts that put no space between words: a name in them is found wherever its characters are.
UNSPACED = (
    CJK
    + "\U00020000-\U0003ffff\u3040-\u30ff\u31f0-\u31ff\u1100-\u11ff\uac00-\ud7af"  # Chinese, Japanese, Korean
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
#: Stands between the columns of a row that is read as text: neither white space nor part of a word.
APART = "\x01"
#: Between a hash and the mark of its key; characters of that mark.
OF_KEY, KEY_MARK_CHARS = "@", 8
#: What may stand between the parts of a name: ``Maria Lopez``, ``maria-lopez``, ``maria_lopez``,
#: 玛丽亚·洛佩斯.
_BETWEEN = r"[\s_\-.·・•‧]+"
_LETTER = rf"[^\W_{UNSPACED}]"
_STARTS, _ENDS = re.compile(_LETTER), re.compile(rf"{_LETTER}\Z")
#: A character as JSON and Python write it where only ASCII is allowed; in a text within a text with more
#: backslashes. A run of backslashes is looked at once, from its beginning, however long it is.
_ESCAPE = re.compile(r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2}))")


def folded(text: str) -> str:
    """NFKC, without regard to upper and lower case."""
    return nfkc(text).casefold()


def unescaped(text: str) -> str:
    """The text with escapes, as JSON and Python write them, as what they stand for."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_char, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs become one character


def _char(match: re.Match[str]) -> str:
    code = int(next(digits for digits in match.groups() if digits), 16)
    return chr(code) if code <= 0x10FFFF else match.group()


class Names:
    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted({folded(name) for name in names})
        self._pattern = re.compile("|".join(map(_pattern, self.names)))

    def found_in(self, text: str | None) -> bool:
        """Whether one of them stands in the text: as whole words, or, in scripts without spaces, anywhere."""
        if not text:
            return False
        if self._pattern.search(folded(text)):
            return True
        plain = unescaped(text)
        return plain != text and self._pattern.search(folded(plain)) is not None


def _pattern(name: str) -> str:
    inside = _BETWEEN.join(re.escape(part) for part in re.split(_BETWEEN, name) if part)
    before = rf"(?<!{_LETTER})" if _STARTS.match(name) else ""
    after = rf"(?!{_LETTER})" if _ENDS.search(name) else ""
    return f"{before}{inside}{after}"


class Whom:
    """Whom an erasure is about: a person, by their names; agents, where something says it is of one."""

    def __init__(self, names: Iterable[str] = (), agents: Iterable[str] = ()) -> None:
        names, self.agents = list(names), list(agents)
        self.person = Names(names) if names else None
        self._agents = re.compile(_of_agent(self.agents)) if self.agents else None

    def names_person(self, text: str | None) -> bool:
        return self.person is not None and self.person.found_in(text)

    def names_agent(self, text: str | None) -> bool:
        if self._agents is None or not text:
            return False
        return (self._agents.search(text) or self._agents.search(unescaped(text))) is not None

    def is_named_in(self, text: str | None) -> bool:
        return self.names_person(text) or self.names_agent(text)


def _of_agent(agents: Iterable[str]) -> str:
    """As a value between columns; in JSON as an agent, as the key of what is an agent's, or after its
    group.
    """
    agents = list(agents)
    plain = "|".join(map(re.escape, agents))
    quoted = "|".join(re.escape(json.dumps(agent_id, ensure_ascii=False)) for agent_id in agents)
    return (
        rf"(?:\A|{APART})(?:{plain})(?:{APART}|\Z)"
        rf'|"(?:agent|agent_id|persona_name)"\s*:\s*(?:{quoted})|(?:{quoted})\s*:|\["[^"]*",\s*(?:{quoted})\]'
    )


def hash_of(name: str, key: bytes) -> str:
    """The hash that is kept of a name. Only with the key can another name be compared with it."""
    return f"{hmac.digest(key, _plain(name), 'sha256').hex()}{OF_KEY}{mark_of(key)}"


def mark_of(key: bytes) -> str:
    return hmac.digest(key, b"", "sha256").hex()[:KEY_MARK_CHARS]


def is_hash_of(stored_hash: str, name: str, key: bytes) -> bool:
    """Whether a name is the one that a hash was made of; before hashes had a key, they were SHA-256 alone."""
    return stored_hash == (
        hash_of(name, key) if OF_KEY in stored_hash else hashlib.sha256(_plain(name)).hexdigest()
    )


def _plain(name: str) -> bytes:
    return folded(name).strip().encode()
