"""``jiyi embedders``, ``reembed``, ``llms`` and ``prompts``: models in use, their cost, a move to another embedder, and prompts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, get_args

import typer
from rich.console import Group
from rich.progress import Progress, TaskID
from rich.table import Table
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.shell import Shown, shows
from jiyi.client.client import Client
from jiyi.errors import BrokerUnavailable, NoAnswer, ProviderUnavailable
from jiyi.protocol.base import Rows
from jiyi.protocol.conversation_commands import PromptName, ShownPrompt
from jiyi.protocol.providers import DEFAULT_BATCH, BreakerState, EmbedderReport, LLMReport, LLMVendor, MoveState, PromptByRules

#: Steps that may fail in a row before the command gives up, and seconds between them: a worker or a provider that
#: restarts is back by then.
MAX_FAILURES, RETRY_SECONDS = 5, 3.0
#: Phases that embed memories: at the switch, the last ones.
EMBEDS = ("filling", "waiting")
#: Longest pause between two looks at a move that waits, in seconds.
LONGEST_PAUSE = 1.0


@shows
def embedders(client: Client) -> Shown:
    """Which embedders there are, which one is in use, and how many memories each model has embedded."""
    report = client.embedders.show()
    return Shown(report, lambda: tables(report))


@shows
def reembed(
    client: Client,
    to: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Where to, as in JIYI_EMBEDDER.", show_default="what it names at the service")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Memories of one step.")] = DEFAULT_BATCH,
    all_models: Annotated[bool, typer.Option("--all-models", help="Take imported vectors of other models along.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End a move that has not switched yet.")] = False,
) -> Shown:
    """Move the whole service to another embedding model while it runs.

    May be stopped at any point; started again, it goes on. The service switches when all memories are embedded.
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
    return Shown({**state.model_dump(exclude={"left", "wait", "done"}), "embedded": embedded}, lambda: output.line(sentence))


def steps(client: Client, **fields: Any) -> Iterator[MoveState]:
    """Every step's state, until the move is done.

    Raises what the last of several failures in a row was.
    """
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


def tables(found: EmbedderReport) -> Group:
    vendors = output.table("embedders", "", "provider", "model", "values", "ready", "calls", right=["values"], grow=["model", "ready"])
    for row in found.vendors:
        mark = Text("●", "green") if row.active else Text("")
        output.row(vendors, mark, row.vendor, row.model, row.dimensions, row.ready, _calls(row.breaker))
    models = output.table("memories by model (whole service)", "model", "state", "memories", right=["memories"])
    for model in found.models:
        beside = model.beside if model.state == "filling" else 0  # else its memories are counted with their nodes
        output.row(models, model.model, model.state or "imported", model.memories + beside)
    if not found.models:
        output.row(models, "none yet")
    notes = [Text(output.plain(note), "yellow") for note in found.notes]
    errors = [
        Text(output.plain(f"{row.vendor}: {row.breaker.last_error}"), "dim")
        for row in found.vendors
        if row.breaker is not None and row.breaker.last_error
    ]
    return Group(vendors, *([""] if errors else []), *errors, "", models, *([""] if notes else []), *notes)


def _calls(breaker: BreakerState | None) -> str | None:
    """The breaker's state in words."""
    if breaker is None:
        return None
    words = {"closed": "let through", "open": "held back", "half-open": "one let through"}
    failures = f", {breaker.failures} failed" if breaker.failures else ""
    return words.get(breaker.state, "unknown") + failures


@shows
def llms(
    client: Client,
    days: Annotated[int, typer.Option(min=1, max=3_650, help="Usage of so many days, today included.")] = 30,
    again: Annotated[bool, typer.Option("--again", help="Have the LLM asked again what it can do, before its next question.")] = False,
) -> Shown:
    """The LLM in use, what it can do and the state of its breaker, the vendors with keys, the group's usage."""
    if again:
        output.notice(f"{client.llms.forget().model} is asked again what it can do, before its next question")
    report = client.llms.show(days=days)
    return Shown(report, lambda: _print_report(client.group, report))


def _print_report(group: str, found: LLMReport) -> None:
    output.stdout().print(llms_tables(group, found, datetime.now(UTC)))
    if found.active.problem:
        output.notice(f"the LLM cannot be used: {found.active.problem}")


def llms_tables(group: str, found: LLMReport, now: datetime) -> Group:
    active, breaker = found.active, found.active.breaker
    used = output.table("", "", "", grow=[""])
    used.show_header = False
    output.row(used, "LLM", active.model)
    output.row(used, "breaker", "none needed" if breaker is None else breaker.state)
    if breaker is not None:
        output.row(used, "asked for", ", ".join(active.tried) or "nothing yet: it is tried out before its first question")
    if breaker is not None and breaker.last_error:
        output.row(used, "last error", f"{output.age(breaker.last_error_at, now)} ago: {breaker.last_error}")
    left = (_left(active.left_to_rules), "") if active.left_to_rules else ()
    answers = (_answers(found), "") if found.usage else ()
    return Group(used, "", *left, _vendors(found.vendors), "", *answers, _usage(group, found))


def _left(rows: list[PromptByRules]) -> Table:
    table = output.table("left to the rules", "prompt", "language", "until", "why", grow=["why"])
    for row in rows:
        until = f"{row.until:%H:%M} UTC" if row.until else None
        output.row(table, row.prompt, row.language or "all", until, row.why)
    return table


def _vendors(vendors: list[LLMVendor]) -> Table:
    table = output.table("vendors", "vendor", "key", "default model")
    for row in vendors:
        key = "found" if row.key else "missing" if row.needs_key else "not needed"
        output.row(table, row.vendor, key, row.model or None)
    return table


def _answers(report: LLMReport) -> Table:
    numbers = ["asked", "usable", "repaired", "by rules", "dropped", "seconds each"]
    table = output.table("answers", "prompt", "model", *numbers, right=numbers)
    for row in report.usage:
        seconds = f"{row.seconds / row.questions:.1f}" if row.questions else None
        usable = row.questions - row.unusable
        output.row(table, row.prompt, row.model, row.questions, usable, row.repaired, row.by_rules, row.dropped, seconds)
    return table


def _usage(group: str, report: LLMReport) -> Table:
    numbers = ["requests", "failed", "tokens in", "tokens out", "cost"]
    table = output.table(f"usage of group {group}, {report.days} days", "prompt", "model", *numbers, right=numbers)
    for row in report.usage:
        cost = f"{row.cost:.4f}" if row.cost else None
        output.row(table, row.prompt, row.model, row.calls, row.failures, row.prompt_tokens, row.completion_tokens, cost)
    if not report.usage:
        output.row(table, "nothing")
    return table


prompts = typer.Typer(no_args_is_help=True, help="What an LLM would be asked.")


@prompts.command("show")
@shows
def show_prompts(
    client: Client,
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(get_args(PromptName))}.")],
    agent: Annotated[str, typer.Option(help="The agent.")],
    session: Annotated[str, typer.Option(help="Its session.")],
    user: Annotated[str | None, typer.Option(help="With which of its users.")] = None,
) -> Shown:
    """Print what would be sent to the LLM for a session. Nothing is sent."""
    found = client.command("prompts.show", name=name, agent_id=agent, session_id=session, user_id=user)
    return Shown(found, lambda: _print_prompts(found))


def _print_prompts(found: Rows[ShownPrompt]) -> None:
    for shown in found.rows:
        output.line(f"{shown.prompt}, about {shown.tokens:,} tokens")
        for message in shown.messages:
            output.stdout().print(Text(f"--- {message.role}\n{output.block(message.content)}"), soft_wrap=True)
