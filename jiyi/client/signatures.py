"""What ``help`` and ``inspect.signature`` show of the client's methods: each field of a request by its
name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def describe(perform: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Put the fields that a verb takes as ``**options`` into its signature and docstring."""
    signature = inspect.signature(function)
    by_name = [one for one in signature.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    for parameter in signature.parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD and "Unpack" in str(parameter.annotation):
            from jiyi.client import arguments  # late: tools.client makes it, and runs without it

            options = getattr(arguments, parameter.annotation.removeprefix("Unpack[").removesuffix("]"))
            fields = {
                name: field for cls in arguments.MODELS[options] for name, field in cls.model_fields.items()
            }
            hints = get_type_hints(options)
            optional = [
                one.replace(default=... if one.default is one.empty else one.default)
                for one in parameters_of(fields, hints)
            ]
            _set(perform, [*by_name, *optional], signature.return_annotation, fields)


def describe_action(perform: Callable[..., Any], request: type[BaseModel], result: Any) -> None:
    """Make the request's fields the signature of an action's method."""
    fields = request.model_fields
    me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    hints = get_type_hints(request)
    _set(perform, [me, *parameters_of(fields, {name: hints[name] for name in fields})], result, fields)


def parameters_of(fields: Mapping[str, FieldInfo], hints: Mapping[str, Any]) -> Iterator[Parameter]:
    """Keyword arguments. One whose default is made for each request shows ``...``."""
    for name, hint in hints.items():
        field = fields[name]
        default = Parameter.empty if field.is_required() else ... if field.default_factory else field.default
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _set(perform: Any, parameters: list[Parameter], result: Any, fields: Mapping[str, FieldInfo]) -> None:
    perform.__signature__ = inspect.Signature(parameters, return_annotation=result)
    names = [one.name for one in parameters if one.name in fields and fields[one.name].description]
    if names:
        lines = [f"    {name}: {' '.join((fields[name].description or '').split())}" for name in names]
        perform.__doc__ = "\n".join([inspect.cleandoc(perform.__doc__ or ""), "", "Fields:", *lines])
