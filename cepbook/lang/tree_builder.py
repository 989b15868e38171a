"""Functions that build trees of one form: all of a tree is fixed but for some variable values.

A builder creates the nodes around variable values anew and shares everything else. It decides nothing, so it is
some ten times as fast as the rules that made the first tree. Values reach its source through the namespace.

The constructor of a frozen dataclass sets each field by a call of ``object.__setattr__``, which takes as long as all
other steps. So a builder assigns the fields of an object of a class with the same slots, and then its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any

from cepbook.lang.types import Type

Builder = Callable[..., Any]
Code = str | tuple[str, ...]  # the code of a value, or that of each field of a node


class NotUniform(Exception):
    """No builder: a tree depends on more than the parameters."""


def compile_builder(parameters: str, tree: Any, variable: Callable[[Any], Code | None]) -> Builder:
    """Return a function of `parameters` that builds trees like `tree`.

    `variable(value)` returns the code of a value that differs between trees, None for any other; it may raise
    NotUniform. Nodes of `tree` are dataclasses; one that occurs several times is built once. Errors: NotUniform.
    """
    writer = _BuilderWriter(variable)
    result, _ = writer.code(tree)
    body = "\n    ".join([*writer.lines, f"return {result}"])
    exec(compile(f"def build({parameters}):\n    {body}", "<tree builder>", "exec"), writer.namespace)
    builder: Builder = writer.namespace.pop("build")  # in its own namespace it would need the collector to be freed
    return builder


class _BuilderWriter:
    def __init__(self, variable: Callable[[Any], Code | None]) -> None:
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {"new": object.__new__}
        self._variable = variable
        self._known: dict[int, tuple[str, bool]] = {}  # code and whether it varies, by identity of the value
        self._computed: dict[Code, str] = {}  # names of variable values, by code

    def code(self, value: Any) -> tuple[str, bool]:
        """Return the code of a value, and whether it differs between trees."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self._code(value)
        return known

    def _code(self, value: Any) -> tuple[str, bool]:
        variable = self._variable(value)
        if variable is not None:
            if variable not in self._computed:
                self._computed[variable] = (
                    self._line(variable) if isinstance(variable, str) else self._node(value, variable)
                )
            return self._computed[variable], True
        kind = type(value)
        items: list[tuple[str, bool]] = []
        if kind is tuple:
            items = [self.code(item) for item in value]
            text = f"({', '.join(code for code, _ in items)},)"
        elif kind is dict:
            items = [self.code(item) for pair in value.items() for item in pair]
            pairs = zip(items[::2], items[1::2], strict=True)
            text = f"{{{', '.join(f'{key}: {item}' for (key, _), (item, _) in pairs)}}}"
        elif is_dataclass(kind) and kind is not Type:
            items = [self.code(_field(of, value)) for of in fields(kind)]
            if any(varies for _, varies in items):
                return self._node(value, [code for code, _ in items]), True
        elif isinstance(value, list | set | frozenset) and any(self.code(item)[1] for item in value):
            raise NotUniform
        if any(varies for _, varies in items):
            return self._line(text), True
        return self._constant(value), False

    def _node(self, node: Any, codes: Sequence[str]) -> str:
        """Write a node like `node` and return its name. `codes` are those of its fields."""
        kind: Any = type(node)
        assigned = _assignable(kind)
        if assigned is None:
            arguments = [f"{of.name}={code}" for of, code in zip(fields(kind), codes, strict=True) if of.init]
            return self._line(f"{self._constant(kind)}({', '.join(arguments)})")
        name = self._line(f"new({self._constant(assigned)})")
        assignments = [f"{name}.{of.name} = {code}" for of, code in zip(fields(kind), codes, strict=True)]
        self.lines += [*assignments, f"{name}.__class__ = {self._constant(kind)}"]
        return name

    def _line(self, code: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {code}")
        return name

    def _constant(self, value: Any) -> str:
        if value is None or value is True or value is False:
            return repr(value)
        name = f"k{len(self.namespace)}"
        self.namespace[name] = value
        return name


def _field(of: Field[Any], node: Any) -> Any:
    """Return the value of a field. One that the constructor does not take must have its default."""
    value = getattr(node, of.name)
    if not of.init and (of.default is MISSING or value is not of.default):
        raise NotUniform
    return value


@cache
def _assignable(kind: type) -> type | None:
    """Return a class with the slots of a frozen dataclass whose fields can be assigned, and its class after that; None
    if the constructor does more than that.
    """
    slots = kind.__dict__.get("__slots__")
    if slots is None or not kind.__dataclass_params__.frozen or hasattr(kind, "__post_init__"):  # type: ignore[attr-defined]
        return None
    assigns = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(kind)(kind.__name__, kind.__bases__, {"__slots__": slots, **assigns})
