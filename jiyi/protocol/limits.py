"""Limits of what events, requests and answers may hold, the same in every client and service."""

from __future__ import annotations

#: Characters of one memory's description.
MAX_DESCRIPTION_CHARS = 20_000
#: Keywords of one memory.
MAX_KEYWORDS = 64
#: Entries of one memory's evidence list or conversation.
MAX_EVIDENCE = 1_000
#: Events of one message; ``observe_many`` splits larger lists.
MAX_EVENTS_PER_MESSAGE = 500
#: Bytes of one message, and of a body over HTTP that may be large (events, imports, texts).
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
#: Focal texts of one retrieval, and characters of each.
MAX_FOCAL_TEXTS, MAX_FOCAL_CHARS = 32, 8_000
#: ``top_k`` of one retrieval.
MAX_TOP_K = 1_000
#: Rows of one page of any list.
MAX_PAGE = 500
#: Dimensions of a vector that an event brings: above every embedding model's, and what pgvector stores.
MAX_VECTOR_DIMENSIONS = 4_096
#: Characters of each file that says who an agent is.
MAX_IDENTITY_CHARS = 20_000
