"""Summaries: what was taken from conversations, in one or two sentences and in keywords."""

from __future__ import annotations

import logging

from engine.providers import llms
from engine.providers.llms.questions import Summarised, Summary
from engine.providers.llms.rules import SUMMARY_SENTENCES, Rules
from jiyi.errors import BadReply
from jiyi.text.budget import cut_to_tokens
from jiyi.text.splitting import sentences
from jiyi.text.words import language_of
from models.conversations import summaries
from models.db.connection import unit_of_work
from models.memory.ingestion.inbox import SUMMARIZE
from tasks.framework.lease import LeaseRenewingLLM
from tasks.framework.work import Batch, work_task

log = logging.getLogger(__name__)

BATCH = 20
#: Seconds. The claim is extended before questions.
SUMMARY_TIME_LIMIT = 600
#: Tokens of an overview, and of an abstract, at most.
OVERVIEW_TOKENS, ABSTRACT_TOKENS = 200, 100


@work_task(SUMMARIZE, batch=BATCH, time_limit=SUMMARY_TIME_LIMIT)
def summarize(batch: Batch) -> None:
    """Make overview and abstract of memories that have none.

    A text of one or two sentences is its own overview: no LLM is asked. A reply that is no answer leaves both empty. Safe
    to repeat because what is written depends on the memory alone, and is written with the receipt.
    """
    with unit_of_work() as connection:
        rows = summaries.to_summarise(connection, batch.subject_ids)
    llm = LeaseRenewingLLM(llms.llm(), batch)
    made = {row.node_id: _made(llm, row.group_id, row.agent_id, row.description) for row in rows}
    with batch.finish() as (connection, owed):
        for node_id in owed:
            if (found := made.get(node_id)) is not None:
                summaries.save(connection, node_id, *_limited(found))


def _made(llm: llms.LLM, group_id: str, agent_id: str, text: str) -> Summarised | None:
    question = Summary(agent_id=agent_id, group_id=group_id, language=language_of(text), text=text)
    if len(sentences(text)) <= SUMMARY_SENTENCES:
        return Rules().ask(question)
    try:
        return llm.ask(question)
    except BadReply as error:
        log.warning("a memory is left without its summary: %s", error)
        return None


def _limited(found: Summarised) -> tuple[str, str]:
    return cut_to_tokens(found.overview, OVERVIEW_TOKENS), cut_to_tokens(", ".join(found.keywords), ABSTRACT_TOKENS)
