"""What an event lacked that led to nothing: the condition of a variable of match_recognize, a partner in a join."""

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
from cepbook.session.history.rerun_provenance import compared_leaves, event_column
from cepbook.session.inspect.partial_matches import PartialMatch

SHOWN = 5  # values of other events that are told
DISTINCT_STEP = ProbeStep("distinct", False, "select distinct")

Events = Mapping[int, Any]
EvaluateExpression = Callable[[x.BoundExpr, Events], Any]  # the value of an expression with the events of its streams
Test = Callable[[str, x.BoundExpr, Events, str], ProbeStep]  # a condition as a stage of this name, with a note


def unmet_condition(
    node: nodes.Recognition, waits: Sequence[PartialMatch], event: Row, ask: EvaluateExpression, test: Test
) -> ProbeStep | None:
    """The condition of a variable that the row does not meet: of one that an open match waited for, else of one that
    matches begin with. None where a condition cannot be told, or a row meets all."""
    shown = {show_row_variable(variable): variable for variable in node.variables}
    keys = [ask(key, {CURRENT_ROW: event}) for key in node.keys]
    failed: list[ProbeStep] = []
    for each in waits:
        if not _of_keys(node, keys, each, ask):
            continue
        behind = f"an open match, {', '.join(each.events)}, was waiting for" if each.events else "a match waited for"
        for text in each.waiting_for.split(" | "):
            if text in shown:
                failed += _tried(shown[text], each.events, event, test, f"{behind} `{shown[text].name}`")
    whole = compile_automaton(node.pattern)
    for number in dict.fromkeys(whole.variables[position] for position in whole.start):
        variable = node.variables[number]
        failed += _tried(variable, {}, event, test, f"no match begins: it is no `{variable.name}`")
    if not failed or any(stage.passed is not False for stage in failed):
        return None
    first, others = failed[0], list(dict.fromkeys(stage.text for stage in failed[1:] if stage.text != failed[0].text))
    more = f"; nor does it meet {', '.join(f'`{text}`' for text in others)}" if others else ""
    return replace(first, note=first.note + more)


def _of_keys(node: nodes.Recognition, keys: list[Any], each: PartialMatch, ask: EvaluateExpression) -> bool:
    rows = [row for value in each.events.values() for row in (value if isinstance(value, list) else [value])]
    return not node.keys or not rows or [ask(key, {CURRENT_ROW: rows[0]}) for key in node.keys] == keys


def _tried(
    variable: nodes.RowDefinition, matched: Mapping[str, Any], event: Row, test: Test, note: str
) -> Iterator[ProbeStep]:
    every = {f"{name}[]": rows if isinstance(rows, list) else [rows] for name, rows in matched.items()}
    events = {CURRENT_ROW: event, MATCHED_ROWS: {**matched, **every}}
    stages = [test("define", part, events, note) for part in x.conjuncts(variable.condition)]
    yield next((stage for stage in stages if stage.passed is not True), ProbeStep("define", True, variable.name))


def distinct_duplicate(
    deliveries: Sequence[Delta], streams: Sequence[int], event: Row, columns: Sequence[str]
) -> ProbeStep | None:
    """That ``distinct`` leaves the event's rows out, where each equals a row before it in its delivery, and which.

    `deliveries` are those that there would be without ``distinct``, their rows with the events of `streams`.
    """
    found: ProbeStep | None = None
    for delta in deliveries:
        rows = delta.insert or []
        for place, row in enumerate(rows):
            if all(row.get(event_column(stream)) is not event for stream in streams):
                continue
            first = next((n for n in range(place) if all(rows[n][each] == row[each] for each in columns)), None)
            if first is None:
                return None
            others = [rows[first].get(event_column(stream)) for stream in streams]
            made_of = "; ".join(_shown(other) for other in others if other is not None)
            note = f"its row, {place + 1} of {len(rows)}, equals row {first + 1} of the same delivery, of {made_of}"
            found = found or replace(DISTINCT_STEP, values=tuple((each, row[each]) for each in columns), note=note)
    return found


def _shown(event: Any) -> str:
    return shorten_line("  ".join(f"{name}={value}" for name, value in event.items()))


def partner_values(
    part: x.BoundExpr, stream: int, rows: Sequence[Row], ask: EvaluateExpression, text: Callable[[x.BoundExpr], str]
) -> list[tuple[str, Any]]:
    """What a condition reads of the events of another stream: (property, its values, each once)."""
    found: list[tuple[str, Any]] = []
    for leaf in compared_leaves(part):
        if isinstance(leaf, x.Prop) and leaf.stream == stream:
            told: list[Any] = []
            for row in rows:
                value = ask(leaf, {stream: row})
                if value not in told and not isinstance(value, UnknownValue):
                    told.append(value)
            found.append((text(leaf), told[:SHOWN] + ["…"] * (len(told) > SHOWN)))
    return found
