"""Methods of the aggregate ``sorted``, by its order, of a table's column ``window(*)``, of a count-min sketch.

Esper reference, section "Access Aggregation Functions". They read the events themselves
(`plan.AggregateCall.reference`), an object with the methods that the templates call. A key is the value of the sort
criterion; with several criteria it is the array of their values.
"""

from __future__ import annotations

from cepbook.lang import types as t
from cepbook.lang.registry.functions.function_row import FunctionRow, ParameterKind, ResultRule, always
from cepbook.lang.types import Type

_LOOKUPS = {
    "first": ("the lowest key", "{0}.lowest()", ()),
    "last": ("the highest key", "{0}.highest()", ()),
    "floor": ("the highest key that is not above the given one", "{0}.floor({1})", ("any",)),
    "ceiling": ("the lowest key that is not below the given one", "{0}.ceiling({1})", ("any",)),
    "lower": ("the highest key below the given one", "{0}.lower({1})", ("any",)),
    "higher": ("the lowest key above the given one", "{0}.higher({1})", ("any",)),
    "get": ("just the given key", "{0}.exact({1})", ("any",)),
}


def _event(arguments: tuple[Type, ...]) -> Type:
    return arguments[0].of or t.OBJECT


def _events(arguments: tuple[Type, ...]) -> Type:
    return arguments[0]


def _key(arguments: tuple[Type, ...]) -> Type:
    return arguments[1]


def _row(name: str, result: ResultRule, doc: str, py: str, parameters: tuple[ParameterKind, ...] = ()) -> FunctionRow:
    arguments = ", ".join({"any": "10", "boolean": "true"}[kind] for kind in parameters)
    example = f"sorted(volume).{name}({arguments})"
    return FunctionRow(f"sorted.{name}", ("any", *parameters), result, doc, example, py)


def _finding() -> list[FunctionRow]:
    rows: list[FunctionRow] = []
    for word, (what, lookup, parameters) in _LOOKUPS.items():
        kinds: tuple[ParameterKind, ...] = ("any",) if parameters else ()
        rows.append(_row(f"{word}Event", _event, f"the earliest event with {what}", f"{{0}}.event({lookup})", kinds))
        rows.append(_row(f"{word}Events", _events, f"all events with {what}", f"{{0}}.equal({lookup})", kinds))
        if word != "get":
            rows.append(_row(f"{word}Key", _key, what, f"{{0}}.value_of({lookup})", kinds))
    return rows


def _of_window(name: str, result: ResultRule, doc: str, py: str) -> FunctionRow:
    return FunctionRow(f"window.{name}", ("any",), result, doc, f"window(*).{name}()", py)


_FREQUENT = t.array_of(t.struct_of((("value", t.OBJECT), ("frequency", t.LONG))))


def _of_sketch(name: str, result: ResultRule, doc: str, py: str, parameters: tuple[ParameterKind, ...]) -> FunctionRow:
    example = f"Seen.symbols.{name}({', '.join(chr(39) + 'A' + chr(39) for _ in parameters)})"
    return FunctionRow(f"countminsketchadd.{name}", ("any", *parameters), result, doc, example, py)


# The types that `result` goes by are those of the ordered events and of a key.
ACCESS = (
    *_finding(),
    _row("countEvents", always(t.INT), "number of events", "len({0}.events)"),
    _row("countKeys", always(t.INT), "number of different keys", "{0}.count_keys()"),
    _row("containsKey", always(t.BOOLEAN), "whether an event has the key", "({0}.exact({1}) is not None)", ("any",)),
    _row(
        "eventsBetween",
        _events,
        "the events from one key to another; for each end, whether it belongs to them",
        "{0}.between({1}, {2}, {3}, {4})",
        ("any", "boolean", "any", "boolean"),
    ),
    _row("minBy", _event, "the first event in order", "{0}.event({0}.lowest())"),
    _row("maxBy", _event, "the last event in order; of equal ones the earliest", "{0}.event({0}.highest())"),
    _row("sorted", _events, "the events in order", "{0}.all()"),
    _row("listReference", _events, "the events in order", "{0}.all()"),
    _of_sketch(
        "countMinSketchFrequency",
        always(t.LONG),
        "how often a value came, estimated and never too low",
        "{0}.frequency({1})",
        ("any",),
    ),
    _of_sketch(
        "countMinSketchTopk",
        always(_FREQUENT),
        "the most frequent values with their frequencies, the highest first; null without `topk`",
        "{0}.often()",
        (),
    ),
    # of the events of a window, by ordinal
    _of_window("first", _event, "the event that arrived first", "next(iter({0}.values()), None)"),
    _of_window("last", _event, "the event that arrived last", "next(reversed({0}.values()), None)"),
    _of_window("countEvents", always(t.INT), "number of events", "len({0})"),
    _of_window("listReference", _events, "the events in order of arrival", "([*{0}.values()] or None)"),
)
