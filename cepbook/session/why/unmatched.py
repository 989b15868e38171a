"""What an event lacked that led to nothing: the condition of a variable of match_recognize, a partner in a join."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cepbook.engine.asking import Unknown
from cepbook.engine.delta import Delta, Row
from cepbook.errors import shortened
from cepbook.lang import expr as x
from cepbook.lang import plan
from cepbook.lang.chains import MATCHED, TESTED
from cepbook.lang.explain_plan import show_expr
from cepbook.lang.explain_rows import show_variable
from cepbook.lang.recognize import automaton
from cepbook.session.inspect.partials import Partial
from cepbook.session.past.watched import event_column, leaves_of
from cepbook.session.why.acting import Stage

SHOWN = 5  # values of other events that are told
DISTINCT = Stage("distinct", False, "select distinct")

Events = Mapping[int, Any]
Ask = Callable[[x.Expr, Events], Any]  # the value of an expression with the events of its streams
Test = Callable[[str, x.Expr, Events, str], Stage]  # a condition as a stage of this name, with a note


def no_row(node: plan.Recognize, waits: Sequence[Partial], event: Row, ask: Ask, test: Test) -> Stage | None:
    """The condition of a variable that the row does not meet: of one that an open match waited for, else of one that
    matches begin with. None where a condition cannot be told, or a row meets all."""
    shown = {show_variable(variable, show_expr): variable for variable in node.variables}
    keys = [ask(key, {TESTED: event}) for key in node.keys]
    failed: list[Stage] = []
    for each in waits:
        if not _of_keys(node, keys, each, ask):
            continue
        behind = f"an open match, {', '.join(each.events)}, was waiting for" if each.events else "a match waited for"
        for text in each.waiting_for.split(" | "):
            if text in shown:
                failed += _tried(shown[text], each.events, event, test, f"{behind} `{shown[text].name}`")
    whole = automaton(node.pattern)
    for number in dict.fromkeys(whole.variables[position] for position in whole.start):
        variable = node.variables[number]
        failed += _tried(variable, {}, event, test, f"no match begins: it is no `{variable.name}`")
    if not failed or any(stage.passed is not False for stage in failed):
        return None
    first, others = failed[0], list(dict.fromkeys(stage.text for stage in failed[1:] if stage.text != failed[0].text))
    more = f"; nor does it meet {', '.join(f'`{text}`' for text in others)}" if others else ""
    return replace(first, note=first.note + more)


def _of_keys(node: plan.Recognize, keys: list[Any], each: Partial, ask: Ask) -> bool:
    """Whether an open match is one of the event's own keys (`partition by`)."""
    rows = [row for value in each.events.values() for row in (value if isinstance(value, list) else [value])]
    return not node.keys or not rows or [ask(key, {TESTED: rows[0]}) for key in node.keys] == keys


def _tried(
    variable: plan.RowDefinition, matched: Mapping[str, Any], event: Row, test: Test, note: str
) -> Iterator[Stage]:
    """The first condition of a variable that is not true; a stage that is passed where there is none."""
    every = {f"{name}[]": rows if isinstance(rows, list) else [rows] for name, rows in matched.items()}
    events = {TESTED: event, MATCHED: {**matched, **every}}
    stages = [test("define", part, events, note) for part in x.conjuncts(variable.condition)]
    yield next((stage for stage in stages if stage.passed is not True), Stage("define", True, variable.name))


def left_out(deliveries: Sequence[Delta], streams: Sequence[int], event: Row, columns: Sequence[str]) -> Stage | None:
    """That ``distinct`` leaves the event's rows out, where each equals a row before it in its delivery, and which.

    `deliveries` are those that there would be without ``distinct``, their rows with the events of `streams`.
    """
    found: Stage | None = None
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
            found = found or replace(DISTINCT, values=tuple((each, row[each]) for each in columns), note=note)
    return found


def _shown(event: Any) -> str:
    return shortened("  ".join(f"{name}={value}" for name, value in event.items()))


def values_of(
    part: x.Expr, stream: int, rows: Sequence[Row], ask: Ask, text: Callable[[x.Expr], str]
) -> list[tuple[str, Any]]:
    """What a condition reads of the events of another stream: (property, its values, each once)."""
    found: list[tuple[str, Any]] = []
    for leaf in leaves_of(part):
        if isinstance(leaf, x.Prop) and leaf.stream == stream:
            told: list[Any] = []
            for row in rows:
                value = ask(leaf, {stream: row})
                if value not in told and not isinstance(value, Unknown):
                    told.append(value)
            found.append((text(leaf), told[:SHOWN] + ["…"] * (len(told) > SHOWN)))
    return found
