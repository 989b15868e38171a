"""The places in a plan of what differs between the plans of a template: its nodes, constants and spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from cepbook.errors import NO_SPAN, Span
from cepbook.lang.plan.placeholder import Placeholder
from cepbook.lang.tree_builder import NotUniform
from cepbook.lang.types import Type


def places_in(name: str, tree: Any) -> Callable[[Any], str | None]:
    """Return the function that returns the code of a value that `tree` holds, as an attribute of the variable `name`.
    It raises NotUniform for a span or placeholder that is not in `tree`.
    """
    places: dict[int, str] = {}
    spans: dict[Span, str] = {NO_SPAN: ""}
    for code, value in _contents(name, tree):
        if type(value) is Span:
            spans.setdefault(value, code)
        else:
            places.setdefault(id(value), code)

    def place(value: Any) -> str | None:
        known: bool = value in spans if type(value) is Span else type(value) is not Placeholder or id(value) in places
        if not known:
            raise NotUniform
        return spans[value] or None if type(value) is Span else places.get(id(value))

    return place


def _contents(code: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all nodes, their constants and spans, and tuples of these, with the code that reads each."""
    if type(value) is tuple and value:
        yield code, value
        for number, item in enumerate(value):
            yield from _contents(f"{code}[{number}]", item)
    elif is_dataclass(type(value)) and type(value) is not Type:
        yield code, value
        for of in [of for of in fields(value) if of.init]:
            yield from _contents(f"{code}.{of.name}", getattr(value, of.name))
    elif type(value) is Placeholder:
        yield code, value
