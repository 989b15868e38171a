"""One row of the method registry: receivers, parameters, type of the result.

A method is called as ``receiver.method(…)``. Parameters are values or lambdas (``x => x.price > 10``). A method may
have several signatures; the binder takes the first one that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cepbook.lang import types as t
from cepbook.lang.types import Type

# What a method is called on: an array of events or of rows of columns, an array of other values, a map, a date-time or
# an event with timestamps
ReceiverKind = Literal["events", "values", "map", "date"]
# What a value, the result of a lambda or the elements of an array must be. Of date-time methods: the name of a field, a
# whole number, a pattern of dates, a time period or milliseconds, a moment, a moment or an event, the same as a span of
# time in units of the clock.
ValueKind = Literal[
    "any", "number", "integer", "ordered", "boolean", "collection",
    "field", "whole", "pattern", "period", "moment", "interval", "span",
]  # fmt: skip
# A value; a lambda of each element; one of the result so far and each element
ParameterShape = Literal["value", "each", "fold"]

LAMBDA_ROLES = {"each": ("element", "index", "size"), "fold": ("result", "element", "index", "size")}
REQUIRED_ROLES = {"each": 1, "fold": 2}  # how many of these a lambda must name


@dataclass(frozen=True, slots=True)
class MethodParameter:
    """One parameter, called `name` in messages. With `backwards` a lambda sees the elements from the last to the first.

    `kind` is that of the value, or of the lambda's result; the result of a ``fold`` is of the type of the value before.
    """

    name: str
    kind: ValueKind = "any"
    shape: ParameterShape = "value"
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class MethodSignature:
    """One way to call a method: on which receivers, with which parameters; `elements` tells what those must be."""

    parameters: tuple[MethodParameter, ...]
    receivers: tuple[ReceiverKind, ...] = ("events", "values")
    elements: ValueKind = "any"


@dataclass(frozen=True, slots=True)
class CallTypes:
    """The types of one call: of the receiver, of its elements (object for a map), of values and results of lambdas."""

    receiver: Type
    element: Type
    args: tuple[Type, ...]

    @property
    def last(self) -> Type:
        """The type of the last argument, of the elements without any: what a method without a lambda works on."""
        return self.args[-1] if self.args else self.element


ResultRule = Callable[[CallTypes], Type]


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One method; `name` is ``owner.name``, the owner tells what kind of value has it, and methods of any case match.

    The value is null for a null receiver. Otherwise `py` is called with the receiver and the arguments: of a value that
    value, of a lambda over each element an iterator of its results, of a ``fold`` the function and iterators of its
    arguments behind the result so far. With `typed` the type of the result follows as last argument.
    """

    name: str
    forms: tuple[MethodSignature, ...]
    result: ResultRule
    doc: str
    example: str
    py: Callable[..., object]
    typed: bool = False

    @property
    def short(self) -> str:
        """The name as it is written."""
        return self.name.partition(".")[2]


def always(type_: Type) -> ResultRule:
    """The same type for all calls."""
    return lambda _: type_


def same(given: CallTypes) -> Type:
    """The type of the receiver."""
    return given.receiver


def element(given: CallTypes) -> Type:
    """The type of the receiver's elements."""
    return given.element


def last(given: CallTypes) -> Type:
    """The type of the last argument, or of the elements."""
    return given.last


def array_of_last(given: CallTypes) -> Type:
    """An array of what the lambda gives, or of the elements."""
    return t.array_of(given.last)
