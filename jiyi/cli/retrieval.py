"""``jiyi retrieve``: what matters now, and why."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.shell import Shown, choices, given, moment, shows
from jiyi.client.calls import checked
from jiyi.client.client import Client
from jiyi.protocol.base import NodeType
from jiyi.protocol.conversations import AnyKind
from jiyi.protocol.origins import Origin
from jiyi.protocol.retrieval import DEFAULT_TOP_K, Answer, Filters, FocalAnswer, ScoredMemory
from jiyi.settings import Mode, RelevanceMode

#: Cells of a bar where there is room, and where there is not.
WIDE_BAR, NARROW_BAR = 20, 14
#: Lines that a long description takes before it is cut.
MAX_LINES = 3
SCORING = "Scoring (instead of the agent's own settings)"
FILTERS = "Which memories are candidates"


@shows
def retrieve(
    client: Client,
    agent: Annotated[str, typer.Argument(help="Whose memories.")],
    focal: Annotated[
        list[str], typer.Argument(help="What they should matter for; one table each.", metavar="FOCAL…")
    ],
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="How many memories.")] = DEFAULT_TOP_K,
    mode: Annotated[
        Mode | None, typer.Option(help="How recency is measured.", rich_help_panel=SCORING)
    ] = None,
    relevance: Annotated[
        RelevanceMode | None, typer.Option(help="By meaning, by words, or both.", rich_help_panel=SCORING)
    ] = None,
    recency_w: Annotated[
        float | None, typer.Option(help="Weight of recency.", rich_help_panel=SCORING)
    ] = None,
    relevance_w: Annotated[
        float | None, typer.Option(help="Weight of relevance.", rich_help_panel=SCORING)
    ] = None,
    importance_w: Annotated[
        float | None, typer.Option(help="Weight of importance.", rich_help_panel=SCORING)
    ] = None,
    decay: Annotated[float | None, typer.Option(help="Decay of recency.", rich_help_panel=SCORING)] = None,
    now: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="ISO", help="The time it is.", rich_help_panel=SCORING),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", help="Instead of event and thought.", rich_help_panel=FILTERS, **choices(NodeType)
        ),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="Instead of memory, preference, knowledge and experience; `session`: turns.",
            rich_help_panel=FILTERS,
            **choices(AnyKind),
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--origin", help="Only what comes from here.", rich_help_panel=FILTERS, **choices(Origin)
        ),
    ] = None,
    min_trust: Annotated[
        float | None, typer.Option(min=0, max=1, help="Trusted at least so much.", rich_help_panel=FILTERS)
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="ISO", help="What was known then.", rich_help_panel=FILTERS),
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Of this session only.", rich_help_panel=FILTERS)
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="What this user of the agent is told.", rich_help_panel=FILTERS)
    ] = None,
    after: Annotated[
        datetime | None,
        typer.Option(
            parser=moment, metavar="ISO", help="Created at this time or later.", rich_help_panel=FILTERS
        ),
    ] = None,
    before: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="ISO", help="Created before this time.", rich_help_panel=FILTERS),
    ] = None,
    keyword: Annotated[
        list[str] | None, typer.Option(help="With any of these.", rich_help_panel=FILTERS)
    ] = None,
    min_similarity: Annotated[
        float | None, typer.Option(help="Least cosine with the focal text.", rich_help_panel=FILTERS)
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Archived ones too.", rich_help_panel=FILTERS)
    ] = False,
    expired: Annotated[
        bool, typer.Option("--expired", help="Expired ones too.", rich_help_panel=FILTERS)
    ] = False,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Older versions too.", rich_help_panel=FILTERS)
    ] = False,
    diversity: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Thin out what says nearly the same: 0 to 1.", rich_help_panel=SCORING
        ),
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Least probability that a memory answers.", rich_help_panel=FILTERS),
    ] = None,
    no_touch: Annotated[bool, typer.Option("--no-touch", help="Do not count this as an access.")] = False,
) -> Shown:
    """The memories that matter most for a text, with what each score is made of."""
    filters = given(
        types=types,
        kinds=kinds,
        origins=origins,
        min_trust=min_trust,
        session_id=session,
        created_after=after,
        created_before=before,
        keywords=keyword,
        min_similarity=min_similarity,
        include_archived=archived,
        include_expired=expired,
        superseded=superseded,
    )
    options = given(
        user_id=user,
        mode=mode,
        relevance=relevance,
        recency_w=recency_w,
        relevance_w=relevance_w,
        importance_w=importance_w,
        recency_decay=decay,
        now=now,
        as_of=as_of,
        diversity=diversity,
        min_probability=min_probability,
    )
    answer = client.retrieve(
        agent, focal, top_k=top_k, touch=not no_touch, filters=checked(Filters, **filters), **options
    )
    unknown = answer.status == "unknown_agent"
    return Shown(answer, lambda: _print_answer(answer), typer.Exit(1) if unknown else None)


def _print_answer(answer: Answer) -> None:
    console = output.stdout()
    for position, group in enumerate(answer.groups):
        console.print(*([""] if position else []), focal_table(group, console.width), sep="\n")


def focal_table(group: FocalAnswer, width: int) -> Group:
    """One focal text's memories as a table that fits ``width`` cells."""
    title = Text.assemble("▸ ", (output.plain(group.query), "bold"))
    if not group.retrieved_nodes:
        return Group(title, Text(f"{group.status}: {output.plain(group.message)}", "yellow"))
    table = (
        _wide(group.retrieved_nodes, width) if width >= output.WIDE else _narrow(group.retrieved_nodes, width)
    )
    return Group(title, table, output.legend(), footer(group))


def footer(group: FocalAnswer) -> Text:
    debug = group.debug
    values: list[tuple[str, object]] = [
        ("candidates", f"{debug.total_candidates:,}"),
        ("mode", debug.mode),
        ("scores of all", f"{debug.min_score or 0:.2f} … {debug.max_score or 0:.2f}"),
    ]
    if debug.without_comparable_vector:
        values.append(("without a comparable vector", f"{debug.without_comparable_vector:,}"))
    text = output.meter(values)
    if group.message:
        text.append(f"\n{output.plain(group.message)}")
    text.stylize("dim")
    return text


def _table(*columns: tuple[str, int, bool], rest: int) -> Table:
    table = output.table("")
    for name, cells, right in columns:
        table.add_column(
            name, min_width=cells, max_width=cells, no_wrap=True, justify="right" if right else "left"
        )
    table.add_column("memory", min_width=rest, max_width=rest, overflow="fold")
    return table


def _contributions(node: ScoredMemory) -> tuple[float, float, float]:
    return node.recency.contribution, node.relevance.contribution, node.importance.contribution


def _wide(nodes: list[ScoredMemory], width: int) -> Table:
    """One line a memory, the long ones more."""
    columns = [
        ("#", 3, True),
        ("score", 5, True),
        ("", WIDE_BAR, False),
        ("rec", 4, True),
        ("rel", 4, True),
        ("imp", 4, True),
        ("type", 7, False),
        ("created", 10, False),
    ]
    rest = output.room(width, *(cells for _, cells, _ in columns))
    table = _table(*columns, rest=rest)
    for rank, node in enumerate(nodes, start=1):
        parts = _contributions(node)
        numbers = [
            Text(f"{part:.2f}", colour)
            for part, (_, colour) in zip(parts, output.PARTS.values(), strict=True)
        ]
        table.add_row(
            str(rank),
            f"{node.score:.2f}",
            output.stacked(*parts, best=nodes[0].score, width=WIDE_BAR),
            *numbers,
            node.type,
            output.local_date(node.created_at),
            output.cut(node.description, rest, MAX_LINES),
        )
    return table


def _narrow(nodes: list[ScoredMemory], width: int) -> Table:
    """Two lines a memory: the numbers below the bar, the date below the type."""
    columns = [
        ("#", 3, True),
        ("score", 5, True),
        (" rec  rel  imp", NARROW_BAR, False),
        ("created", 10, False),
    ]
    rest = output.room(width, *(cells for _, cells, _ in columns))
    table = _table(*columns, rest=rest)
    for rank, node in enumerate(nodes, start=1):
        parts = _contributions(node)
        bar = output.stacked(*parts, best=nodes[0].score, width=NARROW_BAR)
        numbers = Text(" ").join(
            Text(f"{part:.2f}", colour)
            for part, (_, colour) in zip(parts, output.PARTS.values(), strict=True)
        )
        table.add_row(
            str(rank),
            f"{node.score:.2f}",
            Text.assemble(bar, "\n", numbers),
            f"{node.type}\n{output.local_date(node.created_at)}",
            output.cut(node.description, rest, MAX_LINES),
        )
    return table
