"""``jiyi import mem0|zep|letta|langmem|chatgpt|claude|open-webui|openclaw``"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from jiyi.imports.drafts import Drafts, ImportTarget, LeftOut, mapping
from jiyi.imports.import_run import Compared, ImportRun, Report, compare, read_questions
from jiyi.imports.memories import langmem, letta, mem0, zep
from jiyi.imports.services import Mem0Source, Service, ZepSource

#: What was left out is shown up to so many lines.
MAX_SHOWN = 10
#: The status of a program that was interrupted.
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class ImportSource:
    """A source: how its file is read and parsed, how its values are recognized, its service if it has one."""

    about: str
    input_help: str
    read: Callable[[Path], Iterator[Any]]
    #: None: what is read are drafts.
    parse: Callable[..., Drafts] | None
    recognizes: Callable[[Mapping[str, Any]], bool]
    service: Callable[[str, str | None, list[str]], Service] | None = None
    #: Whether its items may say by their place whose they are.
    user_at: bool = False


EXPORT = "the zip as it was downloaded, its folder, or conversations.json."
SOURCES = {
    "chatgpt": ImportSource(
        "Conversations of a ChatGPT export, of each the branch that is shown.",
        EXPORT,
        files.conversations,
        conversations.chatgpt,
        lambda value: "mapping" in value,
    ),
    "claude": ImportSource(
        "Conversations of a Claude export, with pasted texts.",
        EXPORT,
        files.conversations,
        conversations.claude,
        lambda value: "chat_messages" in value,
    ),
    "open-webui": ImportSource(
        "Chats of Open WebUI, of each the branch that is shown.",
        "the JSON file of Export Chats.",
        files.objects,
        conversations.open_webui,
        lambda value: "history" in mapping(value.get("chat")),
    ),
    "mem0": ImportSource(
        "Memories of mem0: what get_all gives, or those of a server.",
        "a JSON file, or the server's address.",
        lambda path: files.objects(path, "results", "memories"),
        mem0,
        lambda value: "memory" in value and ("id" in value or "hash" in value),
        Mem0Source,
    ),
    "zep": ImportSource(
        "Sessions of Zep with their messages and facts.",
        "a JSON file of what its API gives, or its address.",
        lambda path: files.objects(path, "sessions", "threads"),
        zep,
        lambda value: "session_id" in value or "thread_id" in value,
        ZepSource,
    ),
    "letta": ImportSource(
        "An agent of Letta: blocks, passages, messages.",
        "the agent file (.af).",
        lambda path: iter([files.agent_file(path)]),
        letta,
        lambda value: "core_memory" in value or ("agents" in value and "blocks" in value),
    ),
    "langmem": ImportSource(
        "Items of LangMem or another LangGraph store: namespace, key, value.",
        "a JSON file of items, or .jsonl with one a line.",
        lambda path: files.objects(path, "items"),
        langmem,
        lambda value: "key" in value and ("namespace" in value or "prefix" in value),
        user_at=True,
    ),
    "openclaw": ImportSource(
        "What OpenClaw wrote down, and its sessions.",
        "its workspace, or ~/.openclaw.",
        files.workspace,
        None,
        lambda _: False,
    ),
}


def _drafts(values: Iterator[Any], source: str, where: str, user_at: int | None = None) -> Drafts:
    """Drafts of a source's values. Raises :class:`typer.BadParameter` if they are another source's."""
    import_source, is_recognized, problem = SOURCES[source], False, ""
    assert import_source.parse is not None
    for value in values:
        if isinstance(value, LeftOut):
            yield value
            continue
        is_recognized = is_recognized or import_source.recognizes(mapping(value))
        others = () if is_recognized else SOURCES.items()
        other = next((name for name, each in others if each.recognizes(mapping(value))), None)
        if other is not None:
            problem = f"has the form of {other}, not of {source}: jiyi import {other} {where}"
            raise typer.BadParameter(f"{where}: {problem}")
        for draft in (
            import_source.parse(value, user_at) if import_source.user_at else import_source.parse(value)
        ):
            if isinstance(draft, LeftOut) and draft.reason == "malformed":
                problem = problem or draft.detail
            else:
                is_recognized = True
            yield draft
    if problem and not is_recognized:
        forms = f"known forms: {', '.join(SOURCES)}, jsonl"
        raise typer.BadParameter(f"{where}: nothing in it has the form of {source} ({problem}); {forms}")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of a run: of its source, of the questions to check it with, and of how it is shown."""

    of: list[str]
    source_key: str | None
    user_at: int | None
    check: Path | None
    drop_earlier: bool
    wait: bool
    timeout: float
    as_json: bool


def _import(
    ctx: typer.Context, source: str, where: str, options: ImportOptions, target: dict[str, Any]
) -> None:
    import_source = SOURCES[source]
    service, questions = None, None
    if where.startswith(("http://", "https://")):
        if import_source.service is None:
            raise typer.BadParameter(f"{source} has no addresses; give a file")
        service = import_source.service(where, options.source_key, options.of)
        questions = _questions(options.check)
        values = iter(service)
    else:
        path = Path(where)
        path.stat()  # raises what is wrong with it before anything is connected
        questions = _questions(options.check)
        values = import_source.read(path)
    drafts = values if import_source.parse is None else _drafts(values, source, where, options.user_at)
    try:
        with connect(ctx) as client:
            to = ImportTarget(source=source, group=client.group, now=datetime.now(UTC), **target)
            report = _run(client, to, drafts, options)
            compared = None
            if questions and report.complete:
                search = None if service is None else service.search
                compared = compare(client, questions, to.agent or to.default_agent, to.user, search)
            _show(report, compared, options)
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


def _run(client: Client, target: ImportTarget, drafts: Drafts, options: ImportOptions) -> Report:
    """Import everything. Whatever ends it early, the report has what was imported before."""
    with output.progress(counted=False) as progress:
        task = progress.add_task("importing", total=None)
        import_run = ImportRun(
            client, target, lambda count: progress.advance(task, count), drop_earlier=options.drop_earlier
        )
        report = import_run.report
        try:
            import_run.run(drafts)
            if options.wait:
                progress.update(task, description="waiting until retrievable")
                client.wait_for(import_run.ids, options.timeout)
                report.retrievable = True
        except KeyboardInterrupt:
            report.complete, report.problem = False, STOPPED
        except (JiyiError, OSError) as error:
            report.complete, report.problem = False, str(error)
    if report.problem and not options.as_json:
        output.notice(f"jiyi: {report.problem}")
    return report


def _show(report: Report, compared: Compared | None, options: ImportOptions) -> None:
    if options.as_json:
        output.document({**report.model_dump(), "check": None if compared is None else compared.model_dump()})
        return
    for item in report.examples[:MAX_SHOWN]:
        output.notice(f"left out: {item.where}: {item.reason}{f' ({item.detail})' if item.detail else ''}")
    if report.left_out > MAX_SHOWN:
        more = report.left_out - min(MAX_SHOWN, len(report.examples))
        output.notice(f"left out: {more:,} more (--json lists {len(report.examples)})")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.reasons.items()))
    left_out = f", {report.left_out:,} left out ({reasons})" if report.left_out else ""
    early = "" if report.complete else "; it ended early, run it again to go on"
    agents = f" (agent {', '.join(report.agents)})" if report.agents else ""
    output.line(f"{report.taken:,} taken, {report.already:,} there already{left_out}{agents}{early}")
    if report.without_user:
        outcome = "it is being erased" if options.drop_earlier else "--drop-earlier erases it"
        before = f"{report.without_user:,} imported before without --user, and there for whom the source says"
        output.line(f"{before}: {outcome}")
    if compared is not None:
        title = f"found among the first {compared.among_first}, of {compared.questions} questions"
        table = output.table(title, "here", "there")
        output.row(table, compared.ours, compared.theirs)
        output.show(table)


def _command(source: str, import_source: ImportSource) -> None:
    def run(
        ctx: typer.Context,
        where: Annotated[str, typer.Argument(metavar="FILE|URL", help="Where from; see above.")],
        agent: Annotated[
            str | None, typer.Option(help="Store all as this agent's, whatever the source says.")
        ] = None,
        user: Annotated[
            str | None, typer.Option(help="Store all as this user's, whatever the source says.")
        ] = None,
        of: Annotated[
            list[str] | None, typer.Option("--of", help="Of a server: only this user's; may be repeated.")
        ] = None,
        source_key: Annotated[
            str | None, typer.Option(envvar="JIYI_SOURCE_KEY", help="API key of the server.")
        ] = None,
        user_at: Annotated[
            int | None,
            typer.Option("--user-at", help="Of items: which part of the namespace names the user, from 0."),
        ] = None,
        split: Annotated[
            bool, typer.Option("--split/--no-split", help="Long texts in parts; else they are left out.")
        ] = True,
        check: Annotated[
            Path | None,
            typer.Option(help='Ask both sides afterwards: a file of lines {"question": …, "expected": …}.'),
        ] = None,
        drop_earlier: Annotated[
            bool,
            typer.Option(
                "--drop-earlier",
                help="Erase what was imported before of branches not shown now, or without --user.",
            ),
        ] = False,
        wait: Wait = True,
        timeout: Timeout = DEFAULT_TIMEOUT,
        as_json: Json = False,
    ) -> None:
        options = ImportOptions(of or [], source_key, user_at, check, drop_earlier, wait, timeout, as_json)
        _import(ctx, source, where, options, {"agent": agent, "user": user, "split": split})

    again = "Run again, it goes on: what is there already is not stored twice."
    import_app.command(source, help=f"{import_source.about} Give it: {import_source.input_help} {again}")(run)


for name, each in SOURCES.items():
    _command(name, each)
