"""What the source says of the actions: which there are, through which doors they go, and whether they leave an audit row."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.source import Function, Module

MECHANISM = "models.db.actions"
AUDIT = "models.accounts.audit.record"
CLIENT = "jiyi.client.client"


@dataclass(frozen=True)
class Declared:
    """An ``@action`` or a ``by_worker``."""

    name: str
    mutates: bool
    #: The dotted name of its function; of a ``by_worker``, of what implements it, if anything does.
    function: str | None


@dataclass(frozen=True)
class Actions:
    """The actions of a tree of source; ``found`` by the dotted name of each in Python."""

    known: Mapping[str, Module]

    @cached_property
    def found(self) -> dict[str, Declared]:
        implemented = dict(self._implemented())
        declared: dict[str, Declared] = {}
        for module in self._below("models"):
            for name, function in module.functions():
                for call in self._calls_among(module, function.decorator_list, f"{MECHANISM}.action"):
                    declared[name] = Declared(_text(call), _keyword(call, "mutates", default=True), name)
            for target, call in _assigned_calls(module):
                name, function_name = f"{module.name}.{target}", module.dotted(call.func) or ""
                if function_name == f"{MECHANISM}.by_worker":
                    declared[name] = Declared(_text(call), _keyword(call, "mutates", default=True), implemented.get(name))
                elif (inner := self._made_by(function_name)) is not None:
                    declared[name] = Declared(_text(call), _keyword(inner, "mutates", default=True), function_name)
        return declared

    @cached_property
    def functions(self) -> dict[str, tuple[Module, Function]]:
        return {name: (module, node) for module in self._below("models", "tasks") for name, node in module.functions()}

    def _made_by(self, maker: str) -> ast.Call | None:
        """The ``@action(…)`` within a function that makes actions of the names it is given."""
        if maker not in self.functions:
            return None
        module, body = self.functions[maker]
        inner = (node for node in body.body if isinstance(node, Function))
        return next((call for node in inner for call in self._calls_among(module, node.decorator_list, f"{MECHANISM}.action")), None)

    def without_audit(self) -> list[str]:
        """Actions that change something, and whose code never reaches the audit log, however far one follows it."""
        return sorted(one.name for one in self.found.values() if one.mutates and not self._audits(one.function, set()))

    def doors(self) -> dict[str, int]:
        """How many actions can be reached through each door."""
        return {name: len(names) for name, names in self.reached().items()}

    def reached(self) -> dict[str, set[str]]:
        """The names of the actions behind each door."""
        return {
            "rpc": {one.name for one in self.found.values() if one.function is not None},
            "rest": self._given_to({"expose", "expose_commands", "operation"}, "web.api"),
            "admin": self._given_to({"perform", "door"}, "web.admin"),
            "cli": set(self._of_command_line()),
        }

    def _below(self, *folders: str) -> Iterator[Module]:
        return (module for name, module in self.known.items() if name.startswith(tuple(f"{folder}." for folder in folders)))

    def _implemented(self) -> Iterator[tuple[str, str]]:
        for module in self._below("tasks"):
            for name, function in module.functions():
                for call in self._calls_among(module, function.decorator_list, "tasks.framework.rpc.implements"):
                    if (action := module.dotted(call.args[0])) is not None:
                        yield action, name

    @staticmethod
    def _calls_among(module: Module, nodes: list[ast.expr], function: str) -> Iterator[ast.Call]:
        return (node for node in nodes if isinstance(node, ast.Call) and module.dotted(node.func) == function)

    def _audits(self, function: str | None, seen: set[str]) -> bool:
        if function is None or function in seen or function not in self.functions:
            return False
        seen.add(function)
        module, body = self.functions[function]
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "audit":
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                meant = module.dotted(node)
                if meant == AUDIT or self._audits(meant, seen):
                    return True
        return False

    def _given_to(self, functions: set[str], folder: str) -> set[str]:
        """Actions that are an argument of a call of one of these functions, or whose module is."""
        names = set()
        for module in self._below(folder):
            for call in (node for node in ast.walk(module.tree) if isinstance(node, ast.Call)):
                if (module.dotted(call.func) or "").rpartition(".")[2] in functions:
                    given = {module.dotted(value) for value in _arguments(call)}
                    names |= {one.name for dotted, one in self.found.items() if given & {dotted, dotted.rpartition(".")[0]}}
        return names

    def _of_command_line(self) -> Iterator[str]:
        verbs = self._verbs()
        for module in self._below("jiyi.cli"):
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Attribute):
                    yield from verbs.get(".".join(ast.unparse(node).split(".")[-2:]), ())

    def _verbs(self) -> dict[str, set[str]]:
        """``tiers.promote``, ``client.reflect`` → the actions that it asks for."""
        if CLIENT not in self.known:
            return {}
        namespaces = {
            module.dotted(call.func): target.removeprefix("self.")
            for module in [self.known[CLIENT]]
            for target, call in _assigned_calls(module)
        }
        names = {one.name for one in self.found.values()}
        verbs = {}
        for module in self._below("jiyi.client"):
            for function, node in module.functions():
                owner, _, verb = function.rpartition(".")
                said = {item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str)}
                verbs[f"{namespaces.get(owner, 'client')}.{verb}"] = said & names
        return verbs


def _assigned_calls(module: Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield from ((ast.unparse(target), node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            yield ast.unparse(node.target), node.value


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    """What a call is given; a ``*(a, b)``, a dictionary and a choice of two taken apart."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(value, ast.Starred) and isinstance(value.value, ast.Tuple):
            yield from value.value.elts
        elif isinstance(value, ast.Dict):
            yield from value.values
        elif isinstance(value, ast.IfExp):
            yield from (value.body, value.orelse)
        else:
            yield value


def _text(call: ast.Call) -> str:
    return str(ast.literal_eval(call.args[0]))


def _keyword(call: ast.Call, name: str, *, default: bool) -> bool:
    return next((bool(ast.literal_eval(one.value)) for one in call.keywords if one.arg == name), default)
