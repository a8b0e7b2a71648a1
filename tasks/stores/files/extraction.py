"""The text of a file's bytes, a PDF's in a process of its own: a damaged or hostile one ends that process, and no worker."""

from __future__ import annotations

import json
import subprocess
import sys

from jiyi.stores.files import formats
from jiyi.stores.files.decoding import Decoded
from jiyi.stores.files.formats.child import MEMORY_BYTES, SECONDS
from jiyi.stores.files.states import Unusable

#: Seconds more than the process gives itself, for its start.
_GRACE = 15
_COMMAND = (sys.executable, "-m", "jiyi.stores.files.formats.child")


def text_of(data: bytes, name: str, encoding: str) -> Decoded:
    """As :func:`jiyi.stores.files.formats.text_of`."""
    if formats.suffix_of(name) != ".pdf":
        return formats.text_of(data, name, encoding)
    return formats.checked(Decoded(_pdf_text(data), "pdf"))


def _pdf_text(data: bytes) -> str:
    limits = f"{SECONDS} s and {MEMORY_BYTES >> 20:,} MB"
    try:
        done = subprocess.run(_COMMAND, input=data, capture_output=True, timeout=SECONDS + _GRACE, check=False)
    except subprocess.TimeoutExpired:
        raise Unusable("malformed", f"the PDF takes more than {limits} to read: save it anew, or split it") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:  # the process was ended before it could say anything
        raise Unusable("malformed", f"the PDF cannot be read within {limits}: save it anew, or split it") from None
    if "state" in answer:
        raise Unusable(answer["state"], answer["reason"])
    text: str = answer["text"]
    return text
