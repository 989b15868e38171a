"""Functions that build trees of one form: all of a tree is fixed but for some variable values.

A builder creates the nodes around variable values anew and shares everything else. It decides nothing, so it is
some ten times as fast as the rules that made the first tree. Names and values reach its source through the namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from cepbook.lang.types import Type

Builder = Callable[..., Any]


class NotUniform(Exception):
    """No builder: a tree depends on more than the parameters."""


def compile_builder(
    parameters: str, tree: Any, variable: Callable[[Any], str | None], names: Mapping[str, Any] | None = None
) -> Builder:
    """Return a function of `parameters` that builds trees like `tree`.

    `variable(value)` returns the code of a value that differs between trees, None for any other; it may raise
    NotUniform. `names` are those that the code reads. Nodes of `tree` are dataclasses; one that occurs several times is
    built once. Errors: NotUniform.
    """
    writer = _BuilderWriter(variable, dict(names or {}))
    result, _ = writer.code(tree)
    body = "\n    ".join([*writer.lines, f"return {result}"])
    exec(compile(f"def build({parameters}):\n    {body}", "<tree builder>", "exec"), writer.namespace)
    builder: Builder = writer.namespace["build"]
    return builder


class _BuilderWriter:
    def __init__(self, variable: Callable[[Any], str | None], namespace: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.namespace = namespace
        self._variable = variable
        self._known: dict[int, tuple[str, bool]] = {}  # code and whether it varies, by identity of the value
        self._computed: dict[str, str] = {}  # names of variable values, by code

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
                self._computed[variable] = self._line(variable)
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
            arguments = [(of, self.code(getattr(value, of.name))) for of in fields(kind) if _is_argument(of, value)]
            items = [item for _, item in arguments]
            if any(varies for _, varies in items):
                ordered = sorted(arguments, key=lambda argument: argument[0].kw_only is True)
                codes = [f"{of.name}={code}" if of.kw_only else code for of, (code, _) in ordered]
                text = f"{self._constant(kind)}({', '.join(codes)})"
        elif isinstance(value, list | set | frozenset) and any(self.code(item)[1] for item in value):
            raise NotUniform
        if any(varies for _, varies in items):
            return self._line(text), True
        return self._constant(value), False

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


def _is_argument(of: Field[Any], node: Any) -> bool:
    """Return whether the constructor of `node` takes the field; others keep their defaults."""
    if not of.init and (of.default is MISSING or getattr(node, of.name) is not of.default):
        raise NotUniform
    return of.init
