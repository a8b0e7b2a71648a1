"""``python -m jiyi.stores.files.formats.child``: a PDF on stdin, its text as JSON on stdout, within bounds of time and memory."""

from __future__ import annotations

import json
import resource
import sys

from jiyi.stores.files.formats.pdf import pdf_text
from jiyi.stores.files.states import Unusable

#: Of the processor, and of address space: thousands of ordinary pages take less.
SECONDS, MEMORY_BYTES = 60, 1 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        answer = {"text": pdf_text(sys.stdin.buffer.read())}
    except Unusable as problem:
        answer = {"state": problem.state, "reason": problem.reason}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
