"""Code of statements over windows that collect events and release them together.

``release`` is called with the window ``w`` = [collected, former batch, next due, grid]. Aggregates of a batch are made
anew from its events; only under groupwin, where batches of several groups share aggregates, is the former batch taken
out.
Where rows stand for groups, not events, no event is kept at all (`RunningBatchCode`).
"""

from __future__ import annotations

from contextlib import nullcontext

from cepbook.engine.rows.aggregate import Leaving
from cepbook.engine.rows.changes import ChangeCode
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.emit import Emitter
from cepbook.engine.rows.windows import BATCH
from cepbook.engine.rows.windows.time_batch import forces, next_due


class BatchCode(ChangeCode):
    """Writes the functions of one statement over a batch window."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.shape = code.shape
        self.source = code.source
        self.window = BATCH[self.shape.window_name]
        self.q = self.left = code.retained("now")
        self.resets = self.shape.leaving is Leaving.NEVER

    @property
    def fresh(self) -> str:
        """Code of an empty window."""
        return f"[[], [], None, {self.window.grid(self.code)}]"

    @property
    def idle(self) -> str:
        """Code: nothing was collected and nothing was released before."""
        return "not w[0] and not w[1]"

    # -------------------------------------------------------------- arrival
    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        """Collect an event that passed the filter; deliver if that fills the batch."""
        source, code = self.source, self.code
        w = code.find_window(self.fresh)
        if code.aggregates.needs_ordinal:
            code.number()
        source.line(f"{w}[0].append({code.items.pack('now')})")
        if self.shape.window_name == "length_batch":
            source.line("ins, rem = [], []")
            self.window.arrive(code, w, f"len({w}[0])")
            emit("ins", "rem")
        else:
            self.window.arrive(code, w, "")

    def timers(self) -> None:
        """``release`` and, for timed windows, ``tick``."""
        source = self.source
        with source.block("def release(S, w, now, ins, rem, forced=False):"):
            self.code.load_state()
            self._release()
        if self.shape.window_name == "time_batch":
            self._tick()
            self.code.write_dues("w[2]", "w[2] is not None")

    def _tick(self) -> None:
        source, forced = self.source, forces(self.code)
        with source.block("def tick(S, w, now, ins, rem, ordinal):"):
            source.line(f"idle = {self.idle}")
            source.line("made = len(ins), len(rem)")
            with self.code.reported("del ins[made[0] :], rem[made[1] :]"):
                if forced:
                    source.line("release(S, w, now, ins, rem, True)")
                else:
                    with source.block("if not idle:"):
                        source.line("release(S, w, now, ins, rem)")
            source.line("w[2], grid = None, w[2]")
            with nullcontext() if forced else source.block("if w[1]:"):
                source.line("w[3] = grid")
                source.line(f"w[2] = {next_due(self.code, 'w')}")
                source.line("arm(w[2], S, w, ordinal)")
            source.line(f"return {'idle' if forced else 'False'}")

    def start(self) -> None:
        """What a new state does at once: START_EAGER sets the grid at deployment."""
        window = self.shape.window
        if window is None or "START_EAGER" not in window.options or self.shape.group_window:
            return
        source = self.source
        source.line("w = S[1]")
        source.line("w[3] = now")
        source.line(f"w[2] = {next_due(self.code, 'w')}")
        source.line("arm(w[2], S, w, 0)")

    # -------------------------------------------------------------- release
    def _release(self) -> None:
        self.source.line("batch, former = w[0], w[1]")
        self.source.line("w[0], w[1] = [], batch")
        self.change()

    # -------------------------------------------------------------- reading
    def settle(self) -> None:
        """Batches have nothing to drop between releases."""

    def contents(self) -> str:
        """Code of an iterable of the events being collected."""
        return "(item for w in W.values() for item in w[0])" if self.shape.group_window else "W[0]"


class RunningBatchCode(BatchCode):
    """A batch of which only aggregates show: they run along, and a release swaps them.

    ``w`` = [groups or cells of the batch being collected, groups or number of events of the former batch, next due,
    grid, number of events that passed where, number of events].
    """

    @property
    def fresh(self) -> str:
        """Code of an empty window."""
        collecting = "{}" if self.shape.grouped else self.code.aggregates.fresh()
        return f"[{collecting}, 0, None, {self.window.grid(self.code)}, 0, 0]"

    @property
    def idle(self) -> str:
        """Code: nothing was collected and nothing was released before."""
        return "not w[0] and not w[1]" if self.shape.grouped else "not w[4] and not w[1]"

    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        """Add an event that passed the filter to the aggregates of the batch; deliver if that fills it."""
        source, code, cells = self.source, self.code, self.code.aggregates
        p = code.arriving("now")
        with code.where(p):
            if self.shape.grouped:
                source.line("groups = W[0]")
                key = code.key(p)
                if not key.isidentifier():
                    source.line(f"k = {key}")
                    key = "k"
                code.find_or_make("H", "groups", key, cells.fresh(), self._start_with_group)
            else:
                source.line("H = W[0]")
            cells.load("H")
            cells.enter(p)
            cells.store("H")
            if not self.shape.grouped:
                source.line("W[4] += 1")
        if self.shape.window_name == "length_batch":
            source.line("W[5] += 1")
            source.line("ins, rem, w = [], [], W")
            self.window.arrive(code, "w", "w[5]")
            emit("ins", "rem")
        elif not code.starts_with_group:
            self.window.arrive(code, "W", "")

    def _start_with_group(self) -> None:
        """The clock stands only while there are no groups: a new one starts it."""
        if self.code.starts_with_group:
            if not self.code.in_run:
                self.source.line("now = clock.now")
            self.window.arrive(self.code, "W", "")

    def _release(self) -> None:
        source = self.source
        if self.shape.grouped:
            source.line("former_groups, groups = groups, w[0]")
            source.line("S[2], w[0], w[1], w[5] = groups, {}, groups, 0")
            self._swapped_groups()
            return
        source.line(f"batch, w[0], former = w[0], {self.code.aggregates.fresh()}, w[1]")
        source.line("w[1], w[4], w[5] = w[4], 0, 0")
        source.line("before = []")
        if self.shape.wants_remove:
            self.code.aggregates.load("A")
            self.code.append_row("before", self.q)
        source.line("A[:] = batch")
        self.code.aggregates.load("A")
        with source.block("if w[1] or former or forced:"):
            source.line("rem += before")
            if self.shape.wants_insert:
                self.code.append_row("ins", self.q)

    def _swapped_groups(self) -> None:
        source, code, shape = self.source, self.code, self.shape
        source.line("gone = [k for k in former_groups if k not in groups]")
        if shape.wants_remove:
            with source.block("for k in (*groups, *gone):"):
                code.load_group_or_fresh("former_groups")
                code.append_row("rem", self.q)
        if shape.wants_insert:
            with source.block("for k, G in groups.items():"):
                code.aggregates.load("G")
                code.append_row("ins", self.q)
            with source.block("for k in gone:"):
                code.aggregates.load(code.aggregates.fresh())
                code.append_row("ins", self.q)

    def contents(self) -> str:
        """Code of the keys of the groups being collected."""
        return "W[0]"
