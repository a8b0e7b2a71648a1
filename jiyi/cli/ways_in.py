"""``jiyi import mem0|zep|letta|langmem|chatgpt|claude|openclaw``: memories from other services and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from jiyi.cli import output
from jiyi.cli.shell import Json, connect
from jiyi.cli.transfer import DEFAULT_TIMEOUT, Timeout, Wait, import_app
from jiyi.client.client import Client
from jiyi.errors import JiyiError
from jiyi.imports import conversations, files
from jiyi.imports.bringing import Bringing, Report
from jiyi.imports.checking import Compared, compare, read_questions
from jiyi.imports.drafts import Drafts, LeftOut, Target
from jiyi.imports.memories import langmem, letta, mem0, zep
from jiyi.imports.services import Mem0, Service, Zep

#: What was left out is shown up to so many lines.
MAX_SHOWN = 10
#: The status of a program that was interrupted.
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Way:
    """A source: what it is, where from, its file read and parsed, and the service that it may be instead."""

    about: str
    given: str
    drafts: Callable[[Path, int | None], Drafts]
    parse: Callable[[Any], Drafts] | None = None
    service: Callable[[str, str | None, list[str]], Service] | None = None


def _each(values: Iterator[Any], parse: Callable[[Any], Drafts]) -> Drafts:
    for value in values:
        if isinstance(value, LeftOut):
            yield value
        else:
            yield from parse(value)


EXPORT = "the zip as it was downloaded, its folder, or conversations.json."
WAYS = {
    "chatgpt": Way(
        "Conversations of a ChatGPT export, of each the branch that is shown.",
        EXPORT,
        lambda path, _at: _each(files.conversations(path), conversations.chatgpt),
    ),
    "claude": Way("Conversations of a Claude export.", EXPORT, lambda path, _at: _each(files.conversations(path), conversations.claude)),
    "mem0": Way(
        "Memories of mem0: what get_all gives, or those of a server.",
        "a JSON file, or the server's address.",
        lambda path, _at: _each(files.objects(path, "results", "memories"), mem0),
        mem0,
        Mem0,
    ),
    "zep": Way(
        "Sessions of Zep with their messages and facts.",
        "a JSON file of what its API gives, or its address.",
        lambda path, _at: _each(files.objects(path, "sessions", "threads"), zep),
        zep,
        Zep,
    ),
    "letta": Way(
        "An agent of Letta: blocks, passages, messages.", "the agent file (.af).", lambda path, _at: letta(files.agent_file(path))
    ),
    "langmem": Way(
        "Items of LangMem or another LangGraph store: namespace, key, value.",
        "a JSON file of items, or .jsonl with one a line.",
        lambda path, at: _each(files.objects(path, "items"), lambda item: langmem(item, at)),
    ),
    "openclaw": Way(
        "What OpenClaw wrote down, and its sessions.", "its workspace, or ~/.openclaw.", lambda path, _at: files.workspace(path)
    ),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a run that are of its source, and the questions to check it with."""

    of: list[str]
    source_key: str | None
    user_at: int | None
    check: Path | None


def _bring(
    ctx: typer.Context, source: str, where: str, asked: Asked, *, target: dict[str, Any], wait: bool, timeout: float, as_json: bool
) -> None:
    way = WAYS[source]
    if where.startswith(("http://", "https://")):
        if way.service is None or way.parse is None:
            raise typer.BadParameter(f"{source} has no addresses; give a file")
        service, questions = way.service(where, asked.source_key, asked.of), _questions(asked.check)
        drafts = _each(iter(service), way.parse)
    else:
        path = Path(where)
        path.stat()  # raises what is wrong with it before anything is connected
        service, questions = None, _questions(asked.check)
        drafts = way.drafts(path, asked.user_at)
    try:
        with connect(ctx) as client:
            to = Target(source=source, group=client.group, now=datetime.now(UTC), **target)
            report = _run(client, to, drafts, wait=wait, timeout=timeout, as_json=as_json)
            compared = None
            if questions and report.complete:
                search = None if service is None else service.search
                compared = compare(client, questions, to.agent or to.default_agent, to.user, search)
            _show(report, compared, as_json=as_json)
    finally:
        if service is not None:
            service.source.close()
    if not report.complete:
        raise typer.Exit(INTERRUPTED if report.problem == STOPPED else 1)


STOPPED = "interrupted"


def _questions(check: Path | None) -> Any:
    if check is None:
        return None
    with check.open("rb") as stream:
        return read_questions(stream, str(check))


def _run(client: Client, target: Target, drafts: Drafts, *, wait: bool, timeout: float, as_json: bool) -> Report:
    """Bring all in. Whatever ends it early, the report tells what was taken before."""
    with output.progress(counted=False) as progress:
        task = progress.add_task("importing", total=None)
        bringing = Bringing(client, target, lambda count: progress.advance(task, count))
        report = bringing.report
        try:
            bringing.bring(drafts)
            if wait:
                progress.update(task, description="waiting until retrievable")
                client.wait_for(bringing.ids, timeout)
                report.retrievable = True
        except KeyboardInterrupt:
            report.complete, report.problem = False, STOPPED
        except (JiyiError, OSError) as error:
            report.complete, report.problem = False, str(error)
    if report.problem and not as_json:
        output.notice(f"jiyi: {report.problem}")
    return report


def _show(report: Report, compared: Compared | None, *, as_json: bool) -> None:
    if as_json:
        output.document({**report.model_dump(), "check": None if compared is None else compared.model_dump()})
        return
    for told in report.told[:MAX_SHOWN]:
        output.notice(f"left out: {told.where}: {told.reason}{f' ({told.detail})' if told.detail else ''}")
    if report.left_out > MAX_SHOWN:
        output.notice(f"left out: {report.left_out - min(MAX_SHOWN, len(report.told)):,} more (--json tells {len(report.told)})")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.reasons.items()))
    left_out = f", {report.left_out:,} left out ({reasons})" if report.left_out else ""
    early = "" if report.complete else "; it ended early, run it again to go on"
    agents = f" (agent {', '.join(report.agents)})" if report.agents else ""
    output.line(f"{report.taken:,} taken, {report.already:,} there already{left_out}{agents}{early}")
    if compared is not None:
        table = output.table(f"found among the first {compared.among_first}, of {compared.questions} questions", "here", "there")
        output.row(table, compared.ours, compared.theirs)
        output.show(table)


def _command(source: str, way: Way) -> None:
    def run(
        ctx: typer.Context,
        where: Annotated[str, typer.Argument(metavar="FILE|URL", help="Where from; see above.")],
        agent: Annotated[str | None, typer.Option(help="Store all as this agent's, whatever the source says.")] = None,
        user: Annotated[str | None, typer.Option(help="Store all as this user's, whatever the source says.")] = None,
        of: Annotated[list[str] | None, typer.Option("--of", help="Of a server: only this user's; may be repeated.")] = None,
        source_key: Annotated[str | None, typer.Option(envvar="JIYI_SOURCE_KEY", help="API key of the server.")] = None,
        user_at: Annotated[
            int | None, typer.Option("--user-at", help="Of items: which part of the namespace names the user, from 0.")
        ] = None,
        split: Annotated[bool, typer.Option("--split/--no-split", help="Long texts in parts; else they are left out.")] = True,
        check: Annotated[
            Path | None, typer.Option(help='Ask both sides afterwards: a file of lines {"question": …, "expected": …}.')
        ] = None,
        wait: Wait = True,
        timeout: Timeout = DEFAULT_TIMEOUT,
        as_json: Json = False,
    ) -> None:
        target = {"agent": agent, "user": user, "split": split}
        asked = Asked(of or [], source_key, user_at, check)
        _bring(ctx, source, where, asked, target=target, wait=wait, timeout=timeout, as_json=as_json)

    import_app.command(source, help=f"{way.about} Give it: {way.given} Run again, it goes on: what is there already is not stored twice.")(
        run
    )


for name, each in WAYS.items():
    _command(name, each)
