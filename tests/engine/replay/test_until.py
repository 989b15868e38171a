"""A replay that waits for a statement stops behind the event, or the stop of the clock, that made it deliver.

There, all statements have delivered what they deliver for the events so far, sent one by one.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.histories import Event, Run, histories, slices
from tests.engine.replay.test_batch_replayer import ONE_TYPE, TWO_TYPES
from tests.random_cases import in_part, several

MODULES = {
    **ONE_TYPE,
    **TWO_TYPES,
    "timer": "@name('s') select a.x as x from pattern [every a=A(x > 0) -> timer:interval(700 msec)]",
}
OTHERS = (
    ";@name('o1') select irstream sum(x) as total from A#time(1 sec);@name('o2') select k, x from A(x > 1)#length(2);"
    "@name('o3') select a.x as x from pattern [every a=A(x > 0) -> timer:interval(700 msec)]"
)


def stops_behind_what_fired(epl: str, events: list[Event], cut: int, *, stepping: bool, awaited: str | None) -> int:
    """Replay until `s` delivers, again and again; return how often."""
    run = Run(epl)
    batch, runtime, rows = run.runtime.batch(sorted({e.type for e in events})), run.runtime, run.recorders["s"]
    batch.awaited = awaited
    at = fired = 0
    for end in sorted({min(cut, len(events)), len(events)}):
        while at < end:
            before = len(rows)
            stops = range(runtime.now, events[end - 1].time + 1) if stepping else None
            part = slices(events[at:end], at, batch.columns)
            counts = batch.run(part, stops, lambda before=before: len(rows) > before)  # type: ignore[misc]
            assert counts is not None
            assert sum(counts) == end - at or len(rows) > before
            at += sum(counts)
            fired += len(rows) > before
            other = Run(epl)
            other.send(events[:at], stepping=stepping)
            if other.runtime.now < runtime.now:
                other.runtime.advance(runtime.now, stepping=stepping)
            assert run.deliveries == other.deliveries
            assert run.readings() == other.readings()
    return fired


@pytest.mark.parametrize("name", MODULES)
def test_the_replay_stops_behind_what_fired(name: str) -> None:
    types = ("A", "B") if name in TWO_TYPES else ("A",)

    @settings(max_examples=several(3))
    @given(histories(types, most=12), st.integers(1, 12), st.booleans(), st.booleans())
    @in_part
    def check(events: list[Event], cut: int, stepping: bool, alone: bool) -> None:
        awaited = "s" if alone else None
        stops_behind_what_fired(MODULES[name] + OTHERS, events, cut, stepping=stepping, awaited=awaited)

    check()
