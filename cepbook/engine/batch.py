"""Many events at once: the loop runs inside the generated code, over columns.

A replay hands over slices of columns in total order. Statements do not share state, so each runs through the slice on
its own (`flow`), which gives every statement exactly the deliveries that event-by-event sending gives it: timers are
evaluated at the times at which the clock would have been advanced (all distinct event times of the slice), and rows of
``insert into`` go on to their readers with the time of their origin. Where statements do depend on the order among
themselves (a plain listener, a context that several streams open, …) the events are sent one by one; `reason` says why.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import compress
from typing import Any

from cepbook.engine.flow import Flow, Node, Replayed, Slice, allocating, nodes_of
from cepbook.engine.rows.shape import Stage, above_zero
from cepbook.engine.statement import Statement
from cepbook.errors import StatementError
from cepbook.lang import expr as x
from cepbook.lang.plan import Output, WindowSpec
from cepbook.lang.windows import WINDOWS

__all__ = ["Batch", "Slice"]


class Batch:
    """The batch entry for events of `types`. Stays valid when statements come and go between two `run`s."""

    def __init__(self, runtime: Replayed, types: Sequence[str]) -> None:
        self._runtime = runtime
        self.types = tuple(types)
        self._version = -1
        self._reason: str | None = None
        self._nodes: list[Node] = []
        self._columns: dict[str, tuple[str, ...]] = {}

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The properties of each type that `run` must be given now; ask again before each slice."""
        self._plan()
        return self._columns

    @property
    def reason(self) -> str | None:
        """Why events are sent one by one; None when slices run inside the generated code."""
        self._plan()
        return self._reason

    def run(self, slices: Sequence[Slice]) -> None:
        """Process the events of `slices` (at most one per type), which precede all events of the next call.

        Before an event of time t the clock advances to t; events before the clock's time do not move it.
        Errors: as `Runtime.send`.
        """
        self._plan()
        runtime = self._runtime
        if not any(s.times for s in slices):
            return
        with runtime.rounds:
            if self._reason is not None:
                self._send_one_by_one(slices)
                return
            flow = Flow(runtime, slices)
            flow.run(self._nodes)
            runtime.clock.now = max(flow.last, runtime.clock.now)
        runtime.raise_unraised()

    # -------------------------------------------------------------- planning
    def _plan(self) -> None:
        runtime = self._runtime
        if self._version == runtime.version:
            return
        self._version = runtime.version
        found = nodes_of(runtime, self.types)
        self._nodes = [] if isinstance(found, str) else found
        self._reason = f"`{found}` feeds itself" if isinstance(found, str) else self._obstacle()
        self._columns = {name: self._needed(name) for name in self.types}

    def _needed(self, name: str) -> tuple[str, ...]:
        properties = self._runtime.catalog.event_types[name].properties
        if self._reason is not None:
            return tuple(properties)
        wanted = {c for node in self._nodes if name in node.raw for c in node.statement.program.columns}
        for context, listed in allocating(self._runtime, name):
            wanted.update(context.columns(listed))
        return tuple(c for c in properties if c in wanted)

    def _obstacle(self) -> str | None:
        """Why the statements cannot run through a slice one after the other; None if they can."""
        if self._runtime.holds:
            return "patterns, or contexts that are not plainly keyed, deliver the rows of one event together"
        reached: set[str] = set()
        targets: set[str] = set()
        for node in self._nodes:
            statement = node.statement
            if not (node.raw or reached.intersection(node.producers) or statement.program.shape.timed):
                continue
            found = self._obstacle_in(statement)
            if found is not None:
                return found
            reached.add(statement.name)
            if statement.plan.insert is not None:
                targets.add(statement.plan.insert.target)
        return self._context_obstacle(targets)

    def _obstacle_in(self, statement: Statement) -> str | None:
        if statement.outlet.listened:
            return f"`{statement.name}` has a listener that is called one delivery at a time"
        for window in statement.plan.windows:
            if WINDOWS[window.name].timed and not all(above_zero(e) for e in window.args if isinstance(e, x.Period)):
                return f"`{statement.name}` has a period that is not a positive constant"
            if statement.context is not None and _starts_with_partition(window):
                return f"`{statement.name}` has a window whose clock starts when a partition begins"
            if statement.context is not None and _reads_variables(window):
                return f"`{statement.name}` has a window whose parameters are variables, read when a partition begins"
        if any(_may_be_due_at_once(stage) for stage in statement.program.shape.stages):
            return f"`{statement.name}` has a window whose end may move to before now"
        if statement.program.watched:
            return f"`{statement.name}` has a window that follows a variable"
        if statement.program.output_watched:
            return f"`{statement.name}` has an output clause that follows a variable"
        if statement.context is not None and _output_starts_with_partition(statement.plan.output):
            return f"`{statement.name}` has an output clause whose clock starts when a partition begins"
        if statement.kind == "on set" or statement.plan.assigned:
            return f"`{statement.name}` sets variables that others read"
        if statement.plan.drop:
            return f"`{statement.name}` drops events for statements of lower priority"
        return None

    def _context_obstacle(self, targets: set[str]) -> str | None:
        opened: dict[str, str] = {}
        for name in sorted({*self.types, *targets}):
            for context, _ in allocating(self._runtime, name):
                if context.name in opened or (name in targets and name in self.types):
                    return f"context `{context.name}` takes partitions from several streams"
                opened[context.name] = name
                if any(
                    s.plan.context == context.name and s.plan.source.nothing for s in self._runtime.statements.values()
                ):
                    return f"context `{context.name}` has a statement without a from-clause"
                if context.watched:
                    return f"context `{context.name}` has a partition listener, which is called as things happen"
                read = any(s.plan.context == context.name for s in self._runtime.readers(name))
                if name not in self.types and not read:
                    return f"context `{context.name}` takes partitions from the derived stream `{name}`"
        return None

    # -------------------------------------------------------------- one by one
    def _send_one_by_one(self, slices: Sequence[Slice]) -> None:
        runtime = self._runtime
        senders = {each.type: runtime.sender(each.type) for each in slices}
        streams = []
        for number, each in enumerate(slices):
            wanted = self._wanted(each)
            rows = enumerate(each.places) if wanted is None else compress(enumerate(each.places), wanted)
            streams.append([(rank, number, i) for i, rank in rows])
        times = list(merge(*(each.times for each in slices)))
        failures: list[StatementError] = []
        for _, number, i in merge(*streams):
            each = slices[number]
            self._advance(times, each.times[i], failures)
            try:
                senders[each.type]({name: values[i] for name, values in each.columns.items()})
            except StatementError as failure:
                failures.append(failure)
        self._advance(times, times[-1], failures)
        if failures:
            raise failures[0]

    def _advance(self, times: list[int], t: int, failures: list[StatementError]) -> None:
        """Go to `t` with the stops at which something is due, among the `times` of all events."""
        runtime, clock = self._runtime, self._runtime.clock
        while clock.due <= t:
            stop = times[bisect_left(times, clock.due)]
            if stop <= clock.now:
                break
            try:
                runtime.advance(stop)
            except StatementError as failure:
                failures.append(failure)
        if t > clock.now:
            runtime.advance(t)

    def _wanted(self, each: Slice) -> list[Any] | None:
        """Of each event of a slice whether anybody can use it, where only patterns look; None if all are wanted."""
        runtime = self._runtime
        if any(statement.context is not None for statement in runtime.statements.values()):
            return None  # the context may want it
        found: list[list[Any]] = []
        for statement in runtime.readers(each.type):
            picks = statement.picks(each.type)
            if picks is None:
                return None
            try:
                found += [pick(each.columns) for pick in picks]
            except Exception:  # noqa: BLE001 - the statement will meet it again, and tell of it
                return None
        return found[0] if len(found) == 1 else [any(wants) for wants in zip(*found, strict=True)] if found else None


def _reads_variables(window: WindowSpec) -> bool:
    """Then a window may be unable to begin: that is a failure of one event."""
    return any(isinstance(part, x.Variable) for e in window.args for part in x.walk(e))


def _may_be_due_at_once(stage: Stage) -> bool:
    """Whether other windows may take an event away that a window's end depends on."""
    moving = any(WINDOWS[window.name].due_moves_back for window in stage.holding)
    return moving and len(stage.holding) > 1 and not stage.union


def _starts_with_partition(window: WindowSpec) -> bool:
    return "START_EAGER" in window.options or WINDOWS[window.name].runs_ahead or window.reclaim is not None


def _output_starts_with_partition(output: Output | None) -> bool:
    """Whether the output clause measures time from the beginning of its context partition."""
    if output is None:
        return False
    conditions = [e for e in (output.when, output.terminated_when) if e is not None]
    return isinstance(output.after, x.Period) or any(
        isinstance(part, x.OutputCounter) and part.name == "last_output_timestamp"
        for e in conditions
        for part in x.walk(e)
    )
