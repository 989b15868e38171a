"""Explains what a match lacked: the condition of a variable of match_recognize, a partner in a join, or a
distinct row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cepbook.engine.delivery.delta import Delta, Row
from cepbook.engine.inspection.evaluation import UnknownValue
from cepbook.errors import shorten_line
from cepbook.lang.explain.recognize import show_row_variable
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.relational import CURRENT_ROW, MATCHED_ROWS
from cepbook.lang.plan.row_pattern import compile_automaton
from cepbook.session.explain.why_not_triggers import ProbeStep
from cepbook.session.history.rerun_provenance import compared_properties, event_column
from cepbook.session.inspect.partial_matches import PartialMatch

MAX_VALUES = 5  # values of other events that are listed
DISTINCT_STEP = ProbeStep("distinct", False, "select distinct")

Events = Mapping[int, Any]
EvaluateExpression = Callable[[x.BoundExpr, Events], Any]  # the value of an expression with the events of its streams
Test = Callable[[str, x.BoundExpr, Events, str], ProbeStep]  # a condition as a stage of this name, with a note


def unmet_condition(
    node: nodes.Recognition, waits: Sequence[PartialMatch], event: Row, ask: EvaluateExpression, test: Test
) -> ProbeStep | None:
    """Return the condition that the row does not meet: of a variable that an open match waited for, else of one that
    starts matches.

    None if a condition cannot be evaluated, or the row meets all of them.
    """
    by_text = {show_row_variable(variable): variable for variable in node.variables}
    keys = [ask(key, {CURRENT_ROW: event}) for key in node.keys]
    failed: list[ProbeStep] = []
    for partial in waits:
        if not _of_keys(node, keys, partial, ask):
            continue
        behind = (
            f"an open match, {', '.join(partial.events)}, was waiting for" if partial.events else "a match waited for"
        )
        for text in partial.waiting_for.split(" | "):
            if text in by_text:
                failed += _tried(by_text[text], partial.events, event, test, f"{behind} `{by_text[text].name}`")
    whole = compile_automaton(node.pattern)
    for number in dict.fromkeys(whole.variables[position] for position in whole.start):
        variable = node.variables[number]
        failed += _tried(variable, {}, event, test, f"no match begins: it is no `{variable.name}`")
    if not failed or any(stage.passed is not False for stage in failed):
        return None
    first, others = failed[0], list(dict.fromkeys(stage.text for stage in failed[1:] if stage.text != failed[0].text))
    more = f"; nor does it meet {', '.join(f'`{text}`' for text in others)}" if others else ""
    return replace(first, note=first.note + more)


def _of_keys(node: nodes.Recognition, keys: list[Any], partial: PartialMatch, ask: EvaluateExpression) -> bool:
    rows = [row for value in partial.events.values() for row in (value if isinstance(value, list) else [value])]
    return not node.keys or not rows or [ask(key, {CURRENT_ROW: rows[0]}) for key in node.keys] == keys


def _tried(
    variable: nodes.RowDefinition, matched: Mapping[str, Any], event: Row, test: Test, note: str
) -> Iterator[ProbeStep]:
    repeated = {f"{name}[]": rows if isinstance(rows, list) else [rows] for name, rows in matched.items()}
    events = {CURRENT_ROW: event, MATCHED_ROWS: {**matched, **repeated}}
    stages = [test("define", conjunct, events, note) for conjunct in x.conjuncts(variable.condition)]
    yield next((stage for stage in stages if stage.passed is not True), ProbeStep("define", True, variable.name))


def distinct_duplicate(
    deliveries: Sequence[Delta], streams: Sequence[int], event: Row, columns: Sequence[str]
) -> ProbeStep | None:
    """Return the step that ``distinct`` removed the event's rows, if each equals an earlier row of its delivery.

    `deliveries` are the deliveries without ``distinct``, their rows with the events of `streams`.
    """
    step: ProbeStep | None = None
    for delta in deliveries:
        rows = delta.insert or []
        for place, row in enumerate(rows):
            if all(row.get(event_column(stream)) is not event for stream in streams):
                continue
            first = next((n for n in range(place) if all(rows[n][column] == row[column] for column in columns)), None)
            if first is None:
                return None
            others = (rows[first].get(event_column(stream)) for stream in streams)
            texts = ("  ".join(f"{name}={value}" for name, value in row.items()) for row in others if row is not None)
            made_of = "; ".join(map(shorten_line, texts))
            note = f"its row, {place + 1} of {len(rows)}, equals row {first + 1} of the same delivery, of {made_of}"
            step = step or replace(DISTINCT_STEP, values=tuple((column, row[column]) for column in columns), note=note)
    return step


def partner_values(
    condition: x.BoundExpr,
    stream: int,
    rows: Sequence[Row],
    ask: EvaluateExpression,
    text: Callable[[x.BoundExpr], str],
) -> list[tuple[str, Any]]:
    """Return the values that a condition reads from events of another stream: (property, distinct values)."""
    values_by_property: list[tuple[str, Any]] = []
    for prop in compared_properties(condition, stream):
        values: list[Any] = []
        for row in rows:
            value = ask(prop, {stream: row})
            if value not in values and not isinstance(value, UnknownValue):
                values.append(value)
        values_by_property.append((text(prop), values[:MAX_VALUES] + ["…"] * (len(values) > MAX_VALUES)))
    return values_by_property
