"""What events, requests and answers may hold, and how much of the service one caller and one group may take.

Over the latter status 429 (over the broker ``too_many_questions``) says when to ask again. Reasons and
measurements are in ``docs/tenants.md`` and ``docs/benchmarks.md``.
"""

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
#: Dimensions of a vector in an event: above every embedding model's, and what pgvector stores.
MAX_VECTOR_DIMENSIONS = 4_096
#: Characters of each file that says who an agent is.
MAX_IDENTITY_CHARS = 20_000


# What one request may hold

#: Characters of all focal texts of one retrieval together, as sent and after Unicode normalisation, which
#: makes up to 18 of one.
QUESTION_CHARS = 16_000
#: Characters of each question, or sentence of one, of which a vector is made: two windows of the model at
#: most. Of a longer one the beginning and the end.
EMBEDDED_QUESTION_CHARS = 1_000
#: Bytes of a body over HTTP, but for what may be large (events, imports, texts), which has
#: ``MAX_MESSAGE_BYTES``.
BODY_BYTES = 1024 * 1024
#: … and of unauthenticated callers: a form, the registration of a program.
STRANGERS_BYTES = 64 * 1024
#: Values in a JSON text, and how deep its lists and objects may be nested: what is not JSON's own business,
#: such as the schema of a tool, is nested some twenty deep. Parsers themselves stop at two hundred.
MAX_VALUES, MAX_DEPTH = 100_000, 100
#: A message may have one more value for each so many of its bytes: vectors are many numbers, of a dozen
#: characters each.
BYTES_A_VALUE = 6
#: Bytes of bodies that a web process has in hand at a time, those of less than ``SMALL_BODY_BYTES`` left out.
#: A body takes about ten times as much memory while it is looked at.
BODIES_BYTES = 16 * 1024 * 1024
SMALL_BODY_BYTES = 64 * 1024
#: Seconds that a request waits until others' bodies leave room for its own.
BODY_PATIENCE = 5.0

#: Seconds for which the proxy trusts a key that was known while it cannot ask the service, and the most that
#: may be chosen.
TRUSTED_SECONDS, MOST_TRUSTED_SECONDS = 60.0, 3_600.0

# What a group may compute

#: Calls of one group that wait for their turn in one worker. A client has a
#: hundred under way at a time, and turns are dealt by group: a line that is long delays its own group only.
WAITING_CALLS = 110
#: The share of a worker's time that a group may use without being put behind the others. It counts only while
#: others ask, too.
WORK_SHARE = 0.5
#: Seconds over which the share is taken: what was used so long ago counts a third.
MEMORY_SECONDS = 10.0
#: Seconds for which a group that has asked counts as one of those that ask.
ASKING_SECONDS = 10.0
#: Calls that a worker takes from its queues besides those that it computes: they wait in it, where their turn
#: can be decided.
CALLS_IN_HAND = 240
#: Retrievals that one retrieval worker answers at a time; more processors are used by more workers
#: (``JIYI_RETRIEVAL_SHARDS``).
RETRIEVAL_THREADS = 8

# What a caller may hold of the web

#: Requests to the API at a time of one web process, and of them those of all keys of one group. More are
#: refused.
REQUESTS_AT_ONCE = 96
REQUESTS_OF_GROUP = 48
#: Requests at a time of one caller (a key, a session, or else an address), and those of it that wait for
#: them. More are refused.
REQUESTS_OF_CALLER, REQUESTS_WAITING = 16, 64
#: The same of an address without key or session: pages to sign in, static files and documents.
REQUESTS_OF_ADDRESS = 4
#: Threads of a web process besides: probes, pages, streams, and what is refused.
OTHER_THREADS = 32
#: Requests by one address without a key for what needs none, and of them those for the API's documents, which
#: are hundreds of kilobytes each.
ANONYMOUS, DOCUMENTS = "120/minute", "30/minute"
#: Seconds after which a refused caller should retry.
RETRY_SECONDS = 1
