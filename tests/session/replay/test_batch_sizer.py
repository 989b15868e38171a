"""How many events the engine gets with one call: as many as fit into a slice, or outweigh the fixed cost."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from cepbook.session import Workbench
from cepbook.session.replay.batch_sizer import CALLED, LONG_SLICE, MOST, BatchSizer


def sizes(portions: BatchSizer, seconds: Callable[[int], float], calls: int) -> list[int]:
    """The events of so many calls, of which each takes so long."""
    counts = []
    for _ in range(calls):
        count = portions.events
        counts.append(count)
        portions.took(seconds(count), count, count, stepping=False, span=0, cut=False)
    return counts


def test_it_grows_by_steps_to_what_fits() -> None:
    assert sizes(BatchSizer(1000), lambda n: n * 1e-7, 8) == [16, 64, 256, 1024, 4096, 16_384, MOST, MOST]
    assert sizes(BatchSizer(1000), lambda n: n * 1e-5, 6)[-1] == pytest.approx(1000, rel=0.01), "which take 10 ms"


def test_a_blocking_run_takes_longer_calls() -> None:
    portions = BatchSizer(1000)
    portions.aim = LONG_SLICE
    assert sizes(portions, lambda n: n * 1e-4, 6)[-1] == pytest.approx(1000, rel=0.01)


def test_one_call_that_took_long_is_enough() -> None:
    """An event that takes 1 ms all of a sudden: half a minute, and then 10 ms, not 16 s, 8 s, …"""
    portions = BatchSizer(1000)
    sizes(portions, lambda n: n * 1e-7, 12)
    assert sizes(portions, lambda n: n * 1e-3, 4) == [MOST, 10, 10, 10]


def test_with_code_of_the_user_it_begins_with_one_event_and_stays_below_a_second() -> None:
    portions = BatchSizer(1000, lambda: True)
    assert sizes(portions, lambda n: n * 1e-7, 7) == [1, 4, 16, 64, 256, CALLED, CALLED]
    assert sizes(portions, lambda n: n * 0.1, 4) == [CALLED, 1, 1, 1], "events that take 0.1 s each"
    assert sizes(portions, lambda n: n * 1e-7, 3) == [1, 4, 16]


def test_the_fixed_cost_of_calls_is_not_the_larger_part() -> None:
    """Thousands of statements: calls of a hundredth of a second would cost more than their events."""
    counts = sizes(BatchSizer(1000), lambda n: 0.5 + n * 1e-4, 10)
    assert counts[-1] == pytest.approx(5000, rel=0.01)


def test_whose_code_is_called() -> None:
    frame = pd.DataFrame({"at": range(5000), "n": range(5000)})
    cep = Workbench()
    cep.define("E", frame, time="at")
    cep.run("@name('q') select n from E")
    stage = cep._engine
    assert not stage.calls_out
    cep.register_function("twice", lambda n: n * 2, returns="long")
    assert not stage.calls_out, "no statement calls it"
    cep.run("@name('t') select twice(n) as n from E where n > 0")
    assert stage.calls_out
    cep.drop("t")
    assert not stage.calls_out
    leave = cep.on("q", lambda delta: None)
    assert stage.calls_out
    leave()
    assert not stage.calls_out


def test_all_events_come_whatever_the_size_of_the_calls() -> None:
    frame = pd.DataFrame({"at": range(5000), "n": range(5000)})
    cep = Workbench()
    cep.define("E", frame, time="at")
    cep.register_function("same", lambda n: n, returns="long")
    cep.run("@name('q') select same(n) as n from E")
    cep.replay(frame, "E").run()
    assert cep.changes("q")["n"].tolist() == list(range(5000))
