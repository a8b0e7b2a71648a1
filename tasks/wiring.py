"""Every Celery task of the subjects that are on: a worker imports it when it starts."""

from __future__ import annotations

from engine.subjects import is_on
from tasks import appraisal, erasure, jobs, memory
from tasks.conversations import commands, extraction, injection
from tasks.framework import rpc
from tasks.operations import reembedding
from tasks.retrieval import context, retrieve

TASKS = [
    *(memory, appraisal, reembedding, retrieve, context, rpc, erasure, extraction, injection, commands),
    *jobs.JOB_TASKS,
]
if is_on("growth"):
    from tasks.growth import evolution, pains, self_review

    TASKS += [self_review, pains, evolution]
if is_on("stores"):
    from tasks.stores import search

    TASKS += [search]
