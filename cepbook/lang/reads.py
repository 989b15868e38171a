"""What a plan reads: the expressions and the event types in it, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from cepbook.lang import expr as x
from cepbook.lang import plan


def expressions(value: object) -> Iterator[x.Expr]:
    """Every expression in a plan, at any depth."""
    if isinstance(value, x.Expr):
        yield from x.walk(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from expressions(item)
    elif isinstance(value, plan.PlanNode) and is_dataclass(value):
        for field in fields(value):
            yield from expressions(getattr(value, field.name))


def types_read(value: object) -> Iterator[str]:
    """The event types of every stream, atom of a pattern and condition of a context in a plan, at any depth."""
    if isinstance(value, tuple):
        for item in value:
            yield from types_read(item)
    elif isinstance(value, plan.PlanNode) and is_dataclass(value):
        name = getattr(value, "event_type", None)
        if isinstance(name, str) and not (isinstance(value, plan.Source) and (value.pattern or value.nothing)):
            yield name
        for field in fields(value):
            yield from types_read(getattr(value, field.name))
