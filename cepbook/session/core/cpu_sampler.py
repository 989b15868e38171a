"""What every statement has taken and delivered, what it holds, and how much of the processor it uses.

Events are counted by type, once for each slice of a replay. The engine times a slice's way through each statement; what
goes through all statements event by event is sampled while somebody measures: a thread looks now and then which
statement's code runs, and what the process has used since the last look is that statement's. It looks where the
interpreter lets go, as it does for each file and array, so that a slice's numpy and a feed's file would have hidden
everything else. How often follows from what looking costs; nothing is paid for it while nobody measures.
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
from cepbook.lang.plan import nodes

APART = 0.03  # seconds of processor time between two samples, at least
SHARE = 250  # and so many times what one costs its thread; to hand the interpreter over and back costs more than that
LONGEST = 0.2  # seconds between two looks, however little the process does: what begins meanwhile is soon seen
RENEWED = 20  # samples after which it is looked up anew whose code is whose
DEPTH = 60  # frames of a stack that are looked at


class CpuSampler:
    """Adds up for each statement the processor time that it took, in `took`, while somebody measures.

    Slices of replays are timed by the engine, statement by statement. Of events that go through all statements one by
    one it is the time of the samples that found a statement's code running. `start` and `stop` nest.
    """

    def __init__(
        self, statements: Callable[[], Mapping[str, RunningStatement]], counts: Callable[[], Mapping[str, int]]
    ) -> None:
        self._statements = statements
        self._counts = counts
        self._since: Mapping[str, int] | None = None  # counts when somebody began to measure
        self._passed: Counter[str] = Counter()
        self._users = 0
        self._end = threading.Event()
        self.took: defaultdict[str, float] = defaultdict(float)
        self._slices: dict[str, tuple[ProcessorTime, float]] = {}  # of each statement what `took` has of them
        self.measured = False

    def start(self) -> None:
        """Begin to measure."""
        self._users += 1
        if self._users == 1:
            self.measured = True
            self._since = dict(self._counts())
            self._slices = {name: (each.spent, each.spent.seconds) for name, each in self._statements().items()}
            self._end = threading.Event()
            threading.Thread(target=self._run, args=(self._end,), name="cepbook sampler", daemon=True).start()

    def stop(self) -> None:
        """End it; what was measured stays."""
        if self._users:
            self._users -= 1
            if not self._users:
                self._end.set()
                self.settle()
                self._slices = {}
                self._passed, self._since = self._events(), None

    def _events(self) -> Counter[str]:
        """Events by type that came while somebody measured."""
        found = self._passed.copy()
        if self._since is not None:
            found.update({name: n - self._since.get(name, 0) for name, n in self._counts().items()})
        return found

    def settle(self) -> None:
        """Add to `took` what the engine has timed since: when somebody reads it, and before statements begin anew."""
        if self._since is None:
            return
        for name, each in list(self._statements().items()):
            known, seen = self._slices.get(name, (each.spent, 0.0))
            self.took[name] += known.seconds - seen
            if known is not each.spent:  # deployed anew
                self.took[name] += each.spent.seconds
            self._slices[name] = each.spent, each.spent.seconds

    def _run(self, end: threading.Event) -> None:
        own = threading.get_ident()
        known: dict[int, str] = {}
        statements: Mapping[str, RunningStatement] = {}
        number, apart, rest = 0, APART, APART
        sampled, woke = time.process_time(), time.perf_counter()
        before = sampled
        while not end.wait(rest):
            now, awake = time.process_time(), time.perf_counter()
            if now - sampled >= apart / 2:
                began = time.thread_time()
                there = self._statements()
                if number % RENEWED == 0 or there is not statements or len(known) != len(there):
                    statements = there
                    known = {id(each.program.namespace): name for name, each in list(there.items())}
                for thread, frame in sys._current_frames().items():
                    name = None if thread == own else _running(frame, known)
                    if name is not None:
                        self.took[name] += now - sampled
                number, sampled = number + 1, now
                apart += (max(APART, SHARE * (time.thread_time() - began)) - apart) / 4
            busy = (now - before) / max(awake - woke, 1e-6)  # of a core, which others may want as well
            before, woke = now, awake
            rest = min(LONGEST, apart / max(busy, 1e-6))

    def seconds(self, name: str) -> float | None:
        """How long the statement ran, about; None when nobody has measured."""
        self.settle()
        return self.took.get(name, 0.0) if self.measured else None

    def latency(self, runtime: Runtime, name: str) -> float | None:
        """How long the statement took for an event while it was measured, about, in microseconds; None without any.

        Its deliveries come within that time: an event has been through it when the next one comes.
        """
        if not self.measured:
            return None
        events = events_read(runtime, runtime.statement(name), self._events())
        self.settle()
        return self.took.get(name, 0.0) * 1e6 / events if events > 0 else None


def _running(frame: FrameType | None, known: Mapping[int, str]) -> str | None:
    """The statement whose code runs, unless the engine times it itself."""
    found = None
    for _ in range(DEPTH):
        if frame is None:
            return found
        if frame.f_code is StatementPass.through.__code__:
            return None
        found = found or known.get(id(frame.f_globals))
        frame = frame.f_back
    return found


def events_read(runtime: Runtime, statement: RunningStatement, counts: Mapping[str, int]) -> int:
    """How many events of the types that a statement reads have come, whatever its filters said; of a named window, and
    of who reads one, those that were inserted into it.
    """
    target = statement.plan
    stores = {target.store.name} if isinstance(target, nodes.CreateWindowStatement) else set[str]()
    if isinstance(target, nodes.SelectStatement):
        joined = () if target.join is None else target.join.inputs
        passing = [source for source, each in zip(target.sources, joined, strict=False) if each.unidirectional]
        moving = [each.store for each in passing or target.sources if each.store is not None]
        stores |= {each.name for each in moving if each.kind == "window"}
    return sum(n for type_name, n in counts.items() if type_name in stores or statement.reads(type_name))
