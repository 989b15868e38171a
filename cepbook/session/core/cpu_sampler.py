"""Processor time per statement, measured while somebody looks at it.

A replay in batches is timed by the engine: one pair of clock readings per statement and batch. Events that pass through
all statements one by one are sampled. A thread looks now and then which statement's code runs, and adds the processor
time since its last look to that statement. Python hands over the interpreter between statements, file operations and
array operations alike, so batches are excluded from sampling; their array operations would hide everything else.

The interval between samples follows from the cost of one sample. Without a user of the sampler nothing is paid.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import FrameType

from cepbook.engine.replay.statement_pass import StatementPass
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.engine.statements.statement import ProcessorTime

APART = 0.03  # minimum seconds of processor time between two samples
SHARE = 250  # and at least this multiple of a sample's cost
LONGEST = 0.2  # maximum seconds between two looks, also in an idle process
RENEWED = 20  # samples after which the code of statements is looked up again
DEPTH = 60  # frames of a stack that are searched


class CpuSampler:
    """Adds up the processor time of each statement in `took` (seconds) between `start` and `stop`, which nest."""

    def __init__(
        self, statements: Callable[[], Mapping[str, RunningStatement]], counts: Callable[[], Mapping[str, int]]
    ) -> None:
        self._statements = statements
        self._counts = counts
        self._since: Mapping[str, int] | None = None  # event counts at the first `start`
        self._events_before: Counter[str] = Counter()
        self._users = 0
        self._end = threading.Event()
        self.took: defaultdict[str, float] = defaultdict(float)
        self._slices: dict[
            str, tuple[ProcessorTime, float]
        ] = {}  # per statement: the engine's timer, and its seconds that `took` includes
        self.measured = False

    def start(self) -> None:
        """Begin to measure."""
        self._users += 1
        if self._users == 1:
            self.measured = True
            self._since = dict(self._counts())
            self._slices = {
                name: (statement.processor_time, statement.processor_time.seconds)
                for name, statement in self._statements().items()
            }
            self._end = threading.Event()
            threading.Thread(target=self._run, args=(self._end,), name="cepbook sampler", daemon=True).start()

    def stop(self) -> None:
        """Stop measuring. The figures stay."""
        if self._users:
            self._users -= 1
            if not self._users:
                self._end.set()
                self.settle()
                self._slices = {}
                self._events_before, self._since = self._events(), None

    def _events(self) -> Counter[str]:
        counts = self._events_before.copy()
        if self._since is not None:
            counts.update({name: n - self._since.get(name, 0) for name, n in self._counts().items()})
        return counts

    def settle(self) -> None:
        """Add the engine's own timings since the last call. Needed before reading and before a restart."""
        if self._since is None:
            return
        for name, statement in list(self._statements().items()):
            spent, seconds_before = self._slices.get(name, (statement.processor_time, 0.0))
            self.took[name] += spent.seconds - seconds_before
            if spent is not statement.processor_time:  # redeployed
                self.took[name] += statement.processor_time.seconds
            self._slices[name] = statement.processor_time, statement.processor_time.seconds

    def _run(self, end: threading.Event) -> None:
        own = threading.get_ident()
        names: dict[int, str] = {}
        statements: Mapping[str, RunningStatement] = {}
        number, apart, rest = 0, APART, APART
        sampled, woke_at = time.process_time(), time.perf_counter()
        process_before = sampled
        while not end.wait(rest):
            now, awake = time.process_time(), time.perf_counter()
            if now - sampled >= apart / 2:
                began = time.thread_time()
                current = self._statements()
                if number % RENEWED == 0 or current is not statements or len(names) != len(current):
                    statements = current
                    names = {id(statement.program.namespace): name for name, statement in list(current.items())}
                for thread, frame in sys._current_frames().items():
                    name = None if thread == own else _running(frame, names)
                    if name is not None:
                        self.took[name] += now - sampled
                number, sampled = number + 1, now
                apart += (max(APART, SHARE * (time.thread_time() - began)) - apart) / 4
            busy = (now - process_before) / max(awake - woke_at, 1e-6)  # share of one core that the process used
            process_before, woke_at = now, awake
            rest = min(LONGEST, apart / max(busy, 1e-6))

    def seconds(self, name: str) -> float | None:
        """Return the approximate running time of the statement in seconds; None if it was never measured."""
        self.settle()
        return self.took.get(name, 0.0) if self.measured else None

    def latency(self, runtime: Runtime, name: str) -> float | None:
        """Return the approximate time of the statement per event in microseconds, while it was measured; None without
        events.

        The deliveries of an event come within that time, because an event has passed the statement before the next one
        comes.
        """
        if not self.measured:
            return None
        events = events_read(runtime, runtime.statement(name), self._events())
        self.settle()
        return self.took.get(name, 0.0) * 1e6 / events if events > 0 else None


def _running(frame: FrameType | None, known: Mapping[int, str]) -> str | None:
    name = None
    for _ in range(DEPTH):
        if frame is None:
            return name
        if frame.f_code is StatementPass.through.__code__:
            return None
        name = name or known.get(id(frame.f_globals))
        frame = frame.f_back
    return name


def events_read(runtime: Runtime, statement: RunningStatement, counts: Mapping[str, int]) -> int:
    """Return how many events of the types that a statement reads have come, before its filters.

    For a named window, and for statements that read one, the number of events that were inserted into the window.
    """
    target = statement.plan
    joined = () if target.join is None else target.join.inputs
    passing = [source for source, side in zip(target.sources, joined, strict=False) if side.unidirectional]
    read = [source.store for source in passing or target.sources]
    stores = {store.name for store in (target.created_store, *read) if store is not None and store.kind == "window"}
    return sum(n for type_name, n in counts.items() if type_name in stores or statement.reads(type_name))
