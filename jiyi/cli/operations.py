"""``jiyi jobs run`` and ``reembed``, which wait for an end; what ``prompts show`` prints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, shows
from jiyi.cli.views import view
from jiyi.client.by_hand import JOB_SECONDS
from jiyi.client.client import Client
from jiyi.errors import BrokerUnavailable, JiyiError, NoAnswer, ProviderUnavailable
from jiyi.protocol.base import Rows
from jiyi.protocol.conversation_commands import ShownPrompt
from jiyi.protocol.providers import DEFAULT_BATCH, MoveState

#: Steps that may fail in a row before the command gives up, and seconds between them: a worker or a provider
#: that restarts is back by then.
MAX_FAILURES, RETRY_SECONDS = 5, 3.0
#: Phases that embed memories: at the switch, the last ones.
EMBEDS = ("filling", "waiting")
#: Longest pause between two looks at a move that waits, in seconds.
LONGEST_PAUSE = 1.0


class JobFailed(JiyiError):  # noqa: N818 – its name says what happened
    """A job was run, and failed."""

    code = "job_failed"


@shows
def run_job(
    client: Client,
    job: Annotated[str, typer.Argument(help="As `jiyi jobs list` has it.")],
    whole_service: Annotated[bool, typer.Option(help="Of all groups, or of this one alone.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for its end.")] = JOB_SECONDS,
) -> CommandResult:
    """Run a scheduled job now, and wait for its end."""
    tick = client.jobs.run(job, whole_service=whole_service, timeout=timeout)
    failure = JobFailed(f"{tick.job} failed: {tick.error}") if tick.state == "failed" else None
    return CommandResult(tick, lambda: view(tick), failure)


@shows
def reembed(
    client: Client,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="Where to, as in JIYI_EMBEDDER.", show_default="what it names at the service"
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Memories of one step.")] = DEFAULT_BATCH,
    all_models: Annotated[
        bool, typer.Option("--all-models", help="Take imported vectors of other models along.")
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End a move that has not switched yet.")] = False,
) -> CommandResult:
    """Move the whole service to another embedding model while it runs.

    May be stopped at any point; started again, it goes on. The service switches when all memories are
    embedded.
    """
    embedded = 0
    if cancel:
        state = client.reembedding.step(cancel=True)
        sentence = f"the move to {state.model} is cancelled; nothing has changed"
    else:
        with output.progress() as progress:
            task = progress.add_task("embedding", total=None)
            for state in steps(client, to=to, batch=batch, everything=all_models):
                embedded += state.done if state.phase in EMBEDS else 0
                _show(progress, task, state)
        sentence = f"{embedded:,} memories embedded; the service uses {state.model}"
    return CommandResult(
        {**state.model_dump(exclude={"left", "wait", "done"}), "embedded": embedded},
        lambda: output.line(sentence),
    )


def steps(client: Client, **fields: Any) -> Iterator[MoveState]:
    """Every step's state, until the move is done. Raises the last of several failures in a row."""
    failures = 0
    phase = ""
    while True:
        try:
            # Counting takes a look at every memory: at the beginning only.
            state = client.reembedding.step(count=not phase, **fields)
        except (ProviderUnavailable, NoAnswer, BrokerUnavailable) as error:
            failures += 1
            if failures >= MAX_FAILURES:
                output.notice("what is embedded stays: start the command again to go on")
                raise
            output.notice(f"jiyi: {error} (trying again)")
            time.sleep(RETRY_SECONDS)
            continue
        failures, phase = 0, state.phase
        yield state
        if state.phase == "done":
            return
        time.sleep(min(state.wait, LONGEST_PAUSE))


def _show(progress: Progress, task: TaskID, state: MoveState) -> None:
    words = {
        "filling": f"embedding with {state.model}",
        "waiting": "switched; the last questions by the old model end",
        "folding": "putting the vectors in place",
        "done": "done",
        "cancelled": "cancelled",
    }
    before = progress.tasks[0]
    if before.description != words[state.phase]:
        total = None if state.left is None else state.left + state.done
        progress.update(task, description=words[state.phase], completed=state.done, total=total)
    else:
        progress.advance(task, state.done)


def print_prompts(page: Rows[ShownPrompt]) -> None:
    """What an LLM would be asked, as it would be sent."""
    for prompt in page.rows:
        output.line(f"{prompt.prompt}, about {prompt.tokens:,} tokens")
        for message in prompt.messages:
            output.stdout().print(
                Text(f"--- {message.role}\n{output.block(message.content or '')}"), soft_wrap=True
            )
