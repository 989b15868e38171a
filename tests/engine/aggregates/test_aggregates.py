"""Aggregates, which the engine keeps up to date event by event, against recomputation from the window's contents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.engine.histories import Event, Run, comparable, histories
from tests.engine.reference import AGGREGATES, changes
from tests.engine.windows.test_windows import WINDOWS
from tests.random_cases import in_part, several

COLUMNS = {f"c{i}": text for i, text in enumerate(AGGREGATES)}
SELECTED = ", ".join(f"{text} as {column}" for column, text in COLUMNS.items())
EVERY_WINDOW = [w for w in WINDOWS if "batch" not in w]
BATCHES = [w for w in WINDOWS if "batch" in w and "groupwin" not in w]
# first and last of a group of windows follow the windows' order, which the naive ones do not know
ORDERED = [w for w in EVERY_WINDOW if "groupwin" not in w and "unique" not in w]


def row(events: list[Event], columns: dict[str, str] = COLUMNS) -> dict[str, Any]:
    return {column: AGGREGATES[text](events) for column, text in columns.items()}


def without_order(columns: dict[str, str]) -> dict[str, str]:
    return {c: text for c, text in columns.items() if not text.startswith(("first", "last"))}


@pytest.mark.parametrize("window", EVERY_WINDOW)
def test_whole_window(window: str) -> None:
    """One row per change: insert shows the values after it, remove those before."""
    columns = COLUMNS if window in ORDERED else without_order(COLUMNS)
    selected = ", ".join(f"{text} as {column}" for column, text in columns.items())

    @settings(max_examples=several(6))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        run = Run(f"@name('s') select irstream {selected} from A{window}")
        run.send(events)
        before, expected = row([], columns), []
        for change, held in changes(WINDOWS[window](), events, events[-1].time if events else 0):
            after = row(held, columns)
            expected.append((change.time, comparable([after]), comparable([before])))
            before = after
        assert run.deliveries["s"] == expected
        assert comparable(run.runtime.iterate("s")) == comparable([before])

    check()


@pytest.mark.parametrize("window", BATCHES)
def test_whole_batch(window: str) -> None:
    @settings(max_examples=several(6))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        run = Run(f"@name('s') select irstream {SELECTED} from A{window}")
        run.send(events)
        before, expected = row([]), []
        for change, _ in changes(WINDOWS[window](), events, events[-1].time if events else 0):
            after = row(change.new)
            expected.append((change.time, comparable([after]), comparable([before])))
            before = after
        assert run.deliveries["s"] == expected

    check()


@pytest.mark.parametrize("window", [*ORDERED, *BATCHES])
def test_groups(window: str) -> None:
    """A row for each group that events entered or left: insert shows its values after it, remove those before."""

    @settings(max_examples=several(6))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        run = Run(f"@name('s') select irstream k, {SELECTED} from A{window} group by k")
        run.send(events)
        before: dict[Any, dict[str, Any]] = {}
        expected = []
        for change, held in changes(WINDOWS[window](), events, events[-1].time if events else 0):
            now = change.new if "batch" in window else held
            touched = list(dict.fromkeys(e.values["k"] for e in (*change.new, *change.old)))
            insert, remove = [], []
            for key in touched:
                after = {"k": key, **row([e for e in now if e.values["k"] == key])}
                insert.append(after)
                remove.append(before.get(key, {"k": key, **row([])}))
                before[key] = after
            expected.append((change.time, multiset(insert), multiset(remove)))
        found = [
            (time, sorted(insert, key=repr), sorted(remove, key=repr)) for time, insert, remove in run.deliveries["s"]
        ]
        assert found == expected

    check()


def multiset(rows: list[dict[str, Any]]) -> list[Any]:
    """Rows as comparable data; the order of group rows within a delivery is open."""
    return sorted((comparable(r) for r in rows), key=repr)


@pytest.mark.parametrize("window", ORDERED)
def test_row_per_event_with_the_values_of_its_group(window: str) -> None:
    """With a plain column beside the key there is a row per event; a leaving one shows the values after the change."""

    @settings(max_examples=several(6))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        run = Run(
            f"@name('s') select irstream k, d, sum(x) as c, max(x) as m from A{window} group by k having count(*) < 3"
        )
        run.send(events)
        expected = []
        for change, held in changes(WINDOWS[window](), events, events[-1].time if events else 0):

            def shown(event: Event, held: list[Event] = held) -> dict[str, Any] | None:
                group = [e for e in held if e.values["k"] == event.values["k"]]
                if len(group) >= 3:
                    return None
                total, most = AGGREGATES["sum(x)"](group), AGGREGATES["max(x)"](group)
                return {"k": event.values["k"], "d": event.values["d"], "c": total, "m": most}

            insert, remove = ([r for e in part if (r := shown(e)) is not None] for part in change[1:])
            if insert or remove:
                expected.append((change.time, comparable(insert or None), comparable(remove or None)))
        assert run.deliveries["s"] == expected

    check()
