"""The tasks with scheduled jobs: beat's schedule is made of what they register."""

from __future__ import annotations

from engine.subjects import is_on
from tasks import archive, reflection
from tasks.operations import maintenance
from tasks.retrieval import indexes

JOB_TASKS = [maintenance, archive, reflection, indexes]
if is_on("growth"):
    from tasks import appointments

    JOB_TASKS += [appointments]
if is_on("stores"):
    from tasks.stores import index_files

    JOB_TASKS += [index_files]
if is_on("tiers"):
    from tasks import tiers

    JOB_TASKS += [tiers]
if is_on("items"):
    from tasks import items

    JOB_TASKS += [items]
