"""All commands in one place."""

from __future__ import annotations

from typing import Annotated

import typer

import jiyi
from jiyi.cli import (
    accounts,
    command,
    connect,
    erasure,
    memory,
    models,
    observe,
    operations,
    output,
    reflection,
    retrieval,
    service,
    stores,
    tiers,
    transfer,
)
from jiyi.cli import ways_in as _ways_in  # noqa: F401 – registers its commands
from jiyi.cli.shell import Commands, Session

app = typer.Typer(
    name="jiyi",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(value: bool) -> None:
    if value:
        output.line(f"jiyi {jiyi.__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Group (tenant) to speak for.", show_default="JIYI_GROUP, or default")
    ] = None,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True, show_default=False)
    ] = False,
) -> None:
    """Jiyi 记忆: memory for AI agents. Tell it what happened, ask it what matters."""
    ctx.obj = Session(group=group)


TALKING, LOOKING, RUNNING = "Tell and ask", "Look inside", "Run and move"
for function, panel in (
    (observe.observe, TALKING),
    (retrieval.retrieve, TALKING),
    (observe.configure, TALKING),
    (reflection.end_session, TALKING),
    (reflection.reflect, TALKING),
    (reflection.why, LOOKING),
    (retrieval.retrievals, LOOKING),
    (memory.nodes, LOOKING),
    (memory.keywords, LOOKING),
    (memory.related, LOOKING),
    (memory.agents, LOOKING),
    (operations.stats, LOOKING),
    (models.llms, LOOKING),
    (operations.jobs, LOOKING),
    (models.embedders, LOOKING),
    (service.up, RUNNING),
    (service.mcp, RUNNING),
    (service.proxy, RUNNING),
    (connect.connect, RUNNING),
    (models.reembed, RUNNING),
    (operations.run_job, RUNNING),
    (command.command, TALKING),
    (tiers.ingest, TALKING),
    (tiers.recall, TALKING),
    (tiers.context, TALKING),
    (tiers.promote, TALKING),
    (tiers.demote, TALKING),
    (tiers.edit, TALKING),
    (tiers.check, TALKING),
    (tiers.quarantine, LOOKING),
    (tiers.working, LOOKING),
    (tiers.knowledge, LOOKING),
    (tiers.digest, LOOKING),
    (erasure.erase, RUNNING),
    (erasure.erasures, LOOKING),
    (service.backup, RUNNING),
    (service.restore, RUNNING),
):
    app.command(rich_help_panel=panel)(function)
app.add_typer(operations.dead_letters_app, name="dead", rich_help_panel=LOOKING)
app.add_typer(service.doctor_app, name="doctor", rich_help_panel=LOOKING)
app.add_typer(stores.app, name="stores", rich_help_panel=TALKING)
app.add_typer(accounts.keys_app, name="keys", rich_help_panel=RUNNING)
app.add_typer(accounts.users_app, name="users", rich_help_panel=RUNNING)
app.add_typer(memory.archive_app, name="archive", rich_help_panel=RUNNING)
app.add_typer(transfer.import_app, name="import", rich_help_panel=RUNNING)
app.add_typer(transfer.export_app, name="export", rich_help_panel=RUNNING)
