"""models.db.scope: scopes; and which modules may look across groups, or leave row-level security behind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models.actions import ACTIONS
from models.db.scope import Scope, current, for_groups, narrowed_to, whole_service, within

CHECKOUT = Path(__file__).resolve().parents[3]
#: What is searched for uses. Benchmarks, tools and tests look at everything.
FOLDERS = ("jiyi", "models", "tasks", "workers", "web", "alembic")
NOBODY = Scope()

#: Modules that may call ``whole_service()``, and why. Who adds one says why.
WHOLE_SERVICE = {
    "models/db/actions.py": "actions that say so, such as the making of keys",
    "models/memory/access.py": "the buffer of accesses is everybody's",
    "models/retrieval/records.py": "the buffer of past retrievals is everybody's",
    "models/operations/embedding_models.py": "a model's size holds for the memories of all groups",
    "models/operations/numbers.py": "what was asked of an LLM for no group",
    "models/operations/budgets.py": "what the whole deployment has spent",
    "tasks/erasure.py": "an erasure's claim and its report, beside the work for its group",
    "tasks/framework/jobs.py": "scheduled jobs see to all groups",
    "tasks/operations/reembedding.py": "a deployment moves to another embedding model with all its groups",
    "tasks/framework/work.py": "claims take what is due, of all groups",
    "web/admin/frame.py": "the operator's pages",
    "web/probes.py": "the service's meters",
    "workers/web/serve.py": "whether there is anybody who can sign in",
    "models/accounts/sign_in.py": "nobody is known yet, and people belong to no group",
    "workers/backup.py": "what was erased since the backup is erased again, in all groups",
    "workers/doctor.py": "an operator asks whether the whole deployment is well",
    "workers/worker_setup.py": "whether a pause was taken back stands in the audit log, in rows of no group",
    "workers/up.py": "the first person who can sign in",
    "models/memory/ingest.py": "dead letters of groups that are only claimed, or of none",
    "models/accounts/connections.py": "whose a code or a token is is not known yet; people belong to no group",
    "models/accounts/api_keys.py": "a key is looked for before it is known whose it is",
}
#: Actions whose transactions may see all groups' rows, and why. ``across_groups``: for operators only.
WHOLE_SERVICE_ACTIONS = {
    "jobs.run": "scheduled jobs see to all groups",
    **{f"people.{verb}": "people belong to no group" for verb in ("add", "list", "set_password", "update")},
    **{f"workers.{verb}": "workers are the whole service's" for verb in ("list", "set_mode")},
}
ACTIONS_ACROSS_GROUPS = {
    **{f"dead_letters.{verb}": "letters of no known group" for verb in ("get", "list", "resolve")},
    "events.states": "operators see letters of no known group, which may be an event's end",
    "keys.create": "an operator's key is of no group",
    "keys.list": "operators see the keys of all groups, and their own",
    "keys.revoke": "operators end any key",
    "keys.rotate": "operators replace any key",
    "pending_work.retry": "operators see to the work of all groups",
    "stats.show": "operators see how far behind the service is",
}
#: Modules that may act as the tables' owner, whom row-level security does not concern.
AS_OWNER = {
    "alembic/env.py": "migrations",
    "models/db/rows.py": "COPY, after it has checked each row",
    "models/retrieval/enlargement.py": "makes an index",
    "tasks/erasure.py": "VACUUM",
}


def test_scopes_are_nested_and_end() -> None:
    assert current() == NOBODY
    with for_groups("b", "a", "b"):
        assert current() == Scope(("a", "b"))
        with whole_service():
            assert current() == Scope(whole_service=True)
            with for_groups():
                assert current() == NOBODY
        with pytest.raises(ZeroDivisionError), within(Scope(("c",))):
            raise ZeroDivisionError
        assert current() == Scope(("a", "b"))
    assert current() == NOBODY


def test_a_scope_of_groups_is_not_changed_for_another_one() -> None:
    begun = {NOBODY: "b", Scope(("a", "b")): "b", Scope(("a",)): "a", Scope(whole_service=True): "b"}
    for scope, expected in begun.items():
        with within(scope), narrowed_to("b"):
            assert current() == Scope((expected,))


def test_a_thread_begins_without_one() -> None:
    with whole_service(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(current).result() == NOBODY


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Those that may have to do with scopes, by the words in them."""
    for folder in FOLDERS:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"whole_service|as_owner|Scope|models\.db import|models\.db\.scope", text):
                yield str(path.relative_to(CHECKOUT)), ast.parse(text)


def uses(tree: ast.Module, module: str, *names: str) -> bool:
    """Whether the module takes one of the names from ``models.db.<module>``, by any form of import."""
    known = {f"models.db.{module}"}  # as what the module itself is imported
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.module == "models.db":
            known |= {alias.asname or alias.name for alias in node.names if alias.name == module}
        elif node.module == f"models.db.{module}" and {alias.name for alias in node.names} & {*names, "*"}:
            return True
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in names)
    return any(ast.unparse(node.value) in known for node in attributes)


def widens(tree: ast.Module) -> bool:
    """Whether it makes a scope of the whole service by hand."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "Scope"]
    return any(len(call.args) > 1 or any(word.arg != "groups" for word in call.keywords) for call in calls)


def test_only_those_with_a_reason_look_across_groups_or_act_as_the_owner() -> None:
    others = [(name, tree) for name, tree in modules() if name != "models/db/scope.py"]
    assert {name for name, tree in others if uses(tree, "scope", "whole_service")} == WHOLE_SERVICE.keys()
    assert [name for name, tree in others if widens(tree)] == []
    owners = {name for name, tree in others if uses(tree, "scope", "as_owner", "as_owner_within")}
    assert owners == AS_OWNER.keys()


def test_only_actions_with_a_reason_look_across_groups() -> None:
    assert {name for name, action in ACTIONS.items() if action.whole_service} == WHOLE_SERVICE_ACTIONS.keys()
    assert {name for name, action in ACTIONS.items() if action.across_groups} == ACTIONS_ACROSS_GROUPS.keys()
