"""The processes and their wiring: Celery app, intake, embedded stack, process supervision."""

import os

# Read when numpy is loaded, so set before anything of ours loads it. One product of a matrix and a vector is bound by
# memory, not by the processor: more threads only get into each other's way (a retrieval took three times as long).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
