"""Traces of the corpus whose events are replayed in batches, as arrays and by kernels where these can: the same
deliveries, rows and states as with events one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized import kernel_library
from cepbook.engine.vectorized.stream_forms import VectorizedForm
from cepbook.errors import CepbookError, StatementError
from cepbook.testing.engine import Engine, OnDelivery
from cepbook.testing.engines import RowsEngine
from cepbook.testing.markdown import Section
from cepbook.testing.runner import run
from cepbook.testing.scenario import case_sections, parse_case
from cepbook.testing.sweep import scenario_files
from cepbook.testing.values import Row
from tests.engine.histories import Event, Recorder, comparable, slices, take_all_batches_by_arrays
from tests.random_cases import part

CORPUS = Path(__file__).parents[2] / "corpus"
FOLDERS = sorted(path.name for path in CORPUS.iterdir() if path.is_dir() and path.name != "invalid")


_WAITING = ("advance", "on_failure", "properties", "send")
_OTHERS = {name for name in vars(Engine) if not name.startswith("_") and name not in _WAITING}


class RecordingEngine(RowsEngine):
    """The row engine, with a sink for each statement, and what the runner reads."""

    def __init__(self, start: int, options: Mapping[str, Any]) -> None:
        super().__init__(start, options)
        self.recorders: dict[str, Recorder] = {}
        self.readings: list[Any] = []

    def flush(self) -> None:
        """Pass on what waits; here nothing does."""

    def listen(self, statement: str, on_delivery: OnDelivery) -> None:
        recorder = self.recorders.setdefault(f"{statement} {len(self.recorders)}", Recorder())
        self._statements[statement].add_sink(recorder)

    def iterate(self, statement: str) -> Iterable[Row]:
        rows = list(super().iterate(statement))
        self.readings.append(comparable(rows))
        return rows

    def query(self, epl: str) -> Iterable[Row]:
        rows = list(super().query(epl))
        self.readings.append(comparable(rows))
        return rows

    def partitions(self, context: str) -> Iterable[Row]:
        rows = list(super().partitions(context))
        self.readings.append(comparable(rows))
        return rows

    def get_variable(self, name: str) -> Any:
        value = super().get_variable(name)
        self.readings.append(comparable(value))
        return value


class ReplayingEngine(RecordingEngine):
    """A row engine that gets events in batches: they wait until something else happens than an event or a time."""

    batches = 0

    def __init__(self, start: int, options: Mapping[str, Any]) -> None:
        super().__init__(start, options)
        self._events: list[Event] = []
        self._times: list[int] = []
        self._stepping = False

    def __getattribute__(self, name: str) -> Any:
        if name in _OTHERS:
            self.flush()
        return super().__getattribute__(name)

    def send(self, event_type: str, event: dict[str, Any]) -> None:
        if not (self.properties(event_type) or {}).keys() >= event.keys():  # batches have no undeclared properties
            self.flush()
            super().send(event_type, event)
            return
        now = self._times[-1] if self._times else self.runtime.now
        self._events.append(Event(now, event_type, event))

    def advance(self, time: int, *, stepping: bool) -> None:
        now = self._times[-1] if self._times else self.runtime.now
        if stepping != self._stepping or time <= now:
            self.flush()
        self._stepping = stepping
        if time <= now:  # in a batch the clock does not stop twice at a time
            super().advance(time, stepping=stepping)
        else:
            self._times.append(time)

    def flush(self) -> None:
        """Replay the waiting events, and let the clock advance to the waiting times."""
        events, times, self._events, self._times = self._events, self._times, [], []
        if events:
            ReplayingEngine.batches += 1
            batch = self.runtime.batch(sorted({event.type for event in events}))
            last = events[-1].time
            stops: Sequence[int] = range(self.runtime.now, last + 1)
            if not self._stepping:
                stops = sorted({event.time for event in events} | {time for time in times if time <= last})
            with suppress(CepbookError):  # of one event; the others are processed
                batch.run(slices(events, 0, batch.columns, arrays_only=True), stops)
            times = [time for time in times if time > last]
        for time in times:
            super().advance(time, stepping=self._stepping)


def engine_after(section: Section, path: Path, engine: type[RecordingEngine]) -> RecordingEngine:
    """Run a case with priorities, and return its engine."""
    engines: list[RecordingEngine] = []

    def opened(start: int, options: Mapping[str, Any]) -> RecordingEngine:
        engines.append(engine(start, {"prioritized": True, **options}))
        return engines[-1]

    broken = run(parse_case(section, path), opened).broken
    assert broken is None, broken
    return engines[0]


def seen(engine: RecordingEngine) -> dict[str, Any]:
    """Deliveries, readings, and rows and states at the end."""
    engine.flush()
    runtime = engine.runtime
    rows = {name: rows_of(runtime, name) for name in runtime.statements}
    states = {name: repr(runtime.state(name)) for name in runtime.statements}
    deliveries = {name: recorder.deltas for name, recorder in engine.recorders.items()}
    return {"deliveries": deliveries, "readings": engine.readings, "rows": rows, "states": states, "now": runtime.now}


def formless(engine: RecordingEngine) -> list[str]:
    """Return the statements that have neither a form for kernels nor a reason why."""
    statements = engine.runtime.statements.values()
    return [s.name for s in statements if not isinstance(s.program.kernel_form(), VectorizedForm | str)]


def rows_of(runtime: Runtime, statement: str) -> Any:
    try:
        return comparable(runtime.iterate_partitions(statement))
    except StatementError as failure:  # an expression fails on a row
        return str(failure)


def differences(section: Section, path: Path) -> list[str]:
    engines = [engine_after(section, path, kind) for kind in (RecordingEngine, ReplayingEngine)]
    one_by_one, replayed = map(seen, engines)
    assert formless(engines[0]) == []
    return [
        f"{path.stem}: {section.title}: {kind}\n  one by one: {value}\n  in batches: {replayed[kind]}"
        for kind, value in one_by_one.items()
        if value != replayed[kind]
    ]


@pytest.mark.histories
@pytest.mark.parametrize("folder", FOLDERS)
def test_traces_in_batches(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_library.kernels(wait=True) is not None, kernel_library.missing_reason()
    take_all_batches_by_arrays(monkeypatch)
    monkeypatch.setattr(ReplayingEngine, "batches", 0)
    cases = [(path, s) for path in scenario_files(CORPUS / folder) for s in case_sections(path.read_text("utf-8"))]
    assert [text for path, section in part(cases) for text in differences(section, path)] == []
    assert ReplayingEngine.batches > 0
