"""One row of the function registry, and the rules for result types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cepbook.lang import types as t
from cepbook.lang.types import Type

ParameterKind = Literal["number", "integer", "whole number", "string", "char or string", "boolean", "any"]
ResultRule = Callable[[tuple[Type, ...]], Type]


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One function or method.

    `parameters` are the kinds of its parameters. `at_least` of them must be passed, -1: all; with `repeats` the last
    kind holds for any further ones. Methods (``s.length()``) have names such as ``string.length``; their receiver is
    the first parameter and counts in `at_least`. `nulls` is ``propagate`` (null for any null argument; `py` is never
    called with one), ``handled`` (`py` receives nulls) or ``skipped`` (the value is the first argument that is not
    null; later ones are not evaluated). `py` is a template of a Python expression (``abs({0})``) or a callable with the
    argument values. `fails`: some values raise an exception; ``by zero``: a last argument that is zero.
    `implicit_arguments`: the number of last arguments that the binder adds. `epl`: how EPL writes an operation without
    a name there. `picks`: the value is one of the arguments.
    """

    name: str
    parameters: tuple[ParameterKind, ...]
    result: ResultRule
    doc: str
    example: str
    py: str | Callable[..., object] = ""
    at_least: int = -1
    repeats: bool = False
    fails: bool | Literal["by zero"] = False
    implicit_arguments: int = 0
    epl: str = ""
    picks: bool = False
    nulls: Literal["propagate", "handled", "skipped"] = "propagate"

    def __post_init__(self) -> None:
        if (self.nulls == "skipped") == bool(self.py):
            raise TypeError(f"the row of function {self.name} must {'not ' if self.py else ''}say how it is calculated")

    @property
    def minimum(self) -> int:
        """The smallest number of arguments."""
        return len(self.parameters) if self.at_least < 0 else self.at_least


def always(type_: Type) -> ResultRule:
    """The same type for all arguments."""
    return lambda _: type_


def first(arguments: tuple[Type, ...]) -> Type:
    """The type of the first argument."""
    return arguments[0]


def wide_int(arguments: tuple[Type, ...]) -> Type:
    """The type of the first argument, byte and short as int."""
    return t.INT if arguments[0] in (t.BYTE, t.SHORT) else arguments[0]


def promoted(arguments: tuple[Type, ...]) -> Type:
    """The common numeric type of all arguments."""
    result = arguments[0]
    for other in arguments[1:]:
        result = t.promote(result, other)
    return result
