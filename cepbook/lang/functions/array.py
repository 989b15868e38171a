"""Methods of arrays without parameters: ``a.countOf()`` of a repeated tag (Esper reference, Enumeration Methods)."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.lang import types as t
from cepbook.lang.functions.row import FunctionRow, ResultRule, always
from cepbook.lang.types import Type


def _element(arguments: tuple[Type, ...]) -> Type:
    return arguments[0].of or t.OBJECT


def _first(values: Sequence[object]) -> object:
    return values[0] if values else None


def _last(values: Sequence[object]) -> object:
    return values[-1] if values else None


def _method(name: str, result: ResultRule, doc: str, py: object) -> FunctionRow:
    assert isinstance(py, str) or callable(py)
    return FunctionRow(f"array.{name}", ("any",), result, "propagate", doc, f"flags.{name}()", py)


ARRAYS = (
    _method("countOf", always(t.INT), "number of elements, null for no array", "len({0})"),
    _method("firstOf", _element, "the first element, null when there is none", _first),
    _method("lastOf", _element, "the last element, null when there is none", _last),
)
