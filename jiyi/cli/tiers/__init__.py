"""The commands of the three tiers (``docs/workflows.md``)."""

from jiyi.cli.tiers.context import context
from jiyi.cli.tiers.lists import knowledge, quarantine, working
from jiyi.cli.tiers.promotion import check, demote, digest, edit, promote
from jiyi.cli.tiers.query import ingest, recall

__all__ = ["check", "context", "demote", "digest", "edit", "ingest", "knowledge", "promote", "quarantine", "recall", "working"]
