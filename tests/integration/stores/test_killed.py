"""SIGKILL while indexing: what is left is the old index, and in the end the undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

from models.stores.backends import BACKENDS, INDEX
from models.stores.items import EMBED_ITEMS
from tasks.framework.work import run_until_idle
from tasks.stores.index_files import index_file
from tasks.stores.search import embed_items
from tests.integration.memory.test_inbox import execute
from tests.integration.stores.folders import Folder, MakeFolder

FILES, KILLED_AT = 24, 5

#: A worker that dies in the middle of a file's transaction, the chunks written and nothing committed.
WORKER = f"""
import os, signal
from models.db.scope import whole_service
from models.stores import file_rows
from models.stores.backends import INDEX
from tasks.framework.work import run_until_idle
from tasks.stores.index_files import index_file

written, real = [], file_rows.write_outcome

def dying(*arguments):
    written.append(1)
    if len(written) == {KILLED_AT}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*arguments)

file_rows.write_outcome = dying
with whole_service():
    run_until_idle(INDEX, index_file)
"""


def told(docs: Folder) -> list[Any]:
    """The index but for what names the store."""
    return [
        (row.key, row.content_summary, row.chunk_index, row.tokens, row.embedding, row.metadata["file_hash"])
        for row in docs.chunks()
    ]


def test_a_worker_that_is_killed_leaves_the_index_that_an_undisturbed_one_makes(folder: MakeFolder) -> None:
    docs = folder()
    for number in range(FILES):
        docs.write(
            f"{number:02}.md", f"The log of kiln {number}. " + "The tomatoes need water every day. " * 40
        )
    docs.scan()
    undisturbed = told(docs)
    execute("DELETE FROM store_items WHERE store_id = :id", id=docs.store_id)
    docs.perform(BACKENDS["file"].reindex)

    killed = subprocess.run(
        [sys.executable, "-c", WORKER], env=os.environ, timeout=200, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    chunks = Counter((row.metadata["file_path"], row.metadata["total_chunks"]) for row in docs.chunks())
    assert len(chunks) == KILLED_AT - 1  # each file in a transaction of its own,
    assert all(number == total for (_, total), number in chunks.items())  # and none by halves

    execute("UPDATE pending_work SET due_at = now() WHERE kind = :kind", kind=INDEX)  # its claim runs out
    run_until_idle(INDEX, index_file)
    run_until_idle(EMBED_ITEMS, embed_items)
    assert told(docs) == undisturbed
