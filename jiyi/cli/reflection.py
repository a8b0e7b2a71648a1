"""``jiyi reflect`` and ``jiyi memory why``: thoughts, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, shows
from jiyi.client.client import Client
from jiyi.errors import JiyiError
from jiyi.protocol.memory import Memory
from jiyi.protocol.reflection import NewThought, Reasons, ReflectionState

#: Seconds that a reflection may take before the command stops waiting; some thirty answers of an LLM.
PATIENCE = 300.0
#: Evidence of a new thought that is listed; `jiyi memory why` shows the rest.
SHOWN_EVIDENCE = 3
COLOURS = {"thought": "magenta", "event": "", "chat": "cyan"}


class ReflectionFailed(JiyiError):  # noqa: N818 – its name says what happened
    """A reflection was given up."""

    code = "reflection_failed"


@shows
def reflect(
    client: Client,
    agent: Annotated[str, typer.Argument(help="Who is to reflect.")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when it is done.")] = True,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = PATIENCE,
) -> CommandResult:
    """Let an agent reflect on what it has met lately; shows the thoughts with what they rest on."""
    with output.progress(counted=False) as progress:
        progress.add_task(f"{agent} reflects", total=None)
        state = client.reflect(agent, wait=wait, timeout=timeout)
    why_not = f"the reflection was given up: {state.error}; see `jiyi dead_letters list --kind reflect`"
    return CommandResult(
        state,
        lambda: reflection_view(state),
        ReflectionFailed(why_not) if state.state == "given up" else None,
    )


def reflection_view(state: ReflectionState) -> Group:
    """A reflection's thoughts, each as a tree over its evidence, below the question that it answers."""
    parts: list[RenderableType] = thought_trees(state.thoughts)
    if state.error:
        parts.append(Text(output.plain(state.error), "yellow"))
    counted = [
        ("state", state.state),
        ("thoughts", len(state.thoughts)),
        ("llm", state.llm or output.UNKNOWN),
    ]
    footer = output.meter([("reflection", state.reflection_id), *counted])
    footer.stylize("dim")
    return Group(*parts, footer)


def thought_trees(
    thoughts: Sequence[NewThought], *, ids: bool = True, evidence: int = SHOWN_EVIDENCE
) -> list[RenderableType]:
    """Thoughts below the questions that they answer, each with the first of its evidence."""
    parts: list[RenderableType] = []
    for question, answers in groupby(thoughts, key=lambda thought: thought.focal_point):
        if question:
            parts.append(Text.assemble("▸ ", (output.plain(question), "bold")))
        parts += [_thought_tree(thought, evidence, ids=ids) for thought in answers]
    return parts


def why_tree(reasons: Reasons) -> Tree:
    """The evidence as a tree. A memory that many rest on is unfolded once, where it is nearest to the top."""
    unfolded = _nearest(reasons)

    def grow(branch: Tree, node_id: UUID) -> None:
        for evidence in reasons.nodes[node_id].evidence:
            reason = reasons.nodes.get(evidence)
            if reason is None:
                is_missing = evidence in reasons.missing
                word = (
                    "no memory of this group (any more)" if is_missing else "not shown: see --depth, --limit"
                )
                branch.add(Text(f"{evidence}  {word}", "dim"))
                continue
            label = _label(reason.type, reason.description, _came(reason))
            if (node_id, evidence) in unfolded:
                grow(branch.add(label), evidence)
            else:
                branch.add(Text.assemble(label, (" · unfolded elsewhere" if reason.evidence else "", "dim")))

    top = reasons.nodes[reasons.node_id]
    label = _label(top.type, top.description, _came(top))
    if point := top.provenance.get("focal_point"):
        label = Text.assemble(label, (f"\nasked: {output.plain(str(point))}", "dim"))
    if origin := [str(top.provenance[name]) for name in ("llm", "prompt") if name in top.provenance]:
        label = Text.assemble(label, (f"\nmade with {output.plain(' '.join(origin))}", "dim"))
    tree = Tree(label, guide_style="dim")
    grow(tree, reasons.node_id)
    return tree


def _came(reason: Memory) -> str:
    """When it came, where from, and how far it is trusted."""
    return f"{output.local_date(reason.created_at)} · {reason.origin}, trust {reason.trust:g}"


def _nearest(reasons: Reasons) -> set[tuple[UUID, UUID]]:
    """For each memory below the top the pair (what rests on it, it) that reaches it first, by level."""
    visited, order, edges = {reasons.node_id}, [reasons.node_id], set()
    for node_id in order:  # grows while it is walked through
        for evidence in reasons.nodes[node_id].evidence:
            if evidence in reasons.nodes and evidence not in visited:
                visited.add(evidence)
                order.append(evidence)
                edges.add((node_id, evidence))
    return edges


def _thought_tree(thought: NewThought, limit: int, *, ids: bool) -> Tree:
    note = f"importance {thought.poignancy or 0:g}"
    tree = Tree(
        _label("thought", thought.description, f"{note} · {thought.node_id}" if ids else note),
        guide_style="dim",
    )
    for evidence in thought.evidence[:limit]:
        tree.add(_label(evidence.type, evidence.description, output.local_date(evidence.created_at)))
    if len(thought.evidence) > limit:
        tree.add(Text(f"… and {len(thought.evidence) - limit} more", "dim"))
    return tree


def _label(kind: str, description: str, note: str) -> Text:
    return Text.assemble((output.plain(description), COLOURS.get(kind, "")), (f"  {kind} · {note}", "dim"))
