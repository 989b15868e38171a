"""Times in the rows of cells: text for people, numbers for comparing and storing.

The columns with times are known for deliveries and for the rows that ``iterate`` reads
(`session.inspect.time_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cepbook.display import format_time
from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.time_conversion import parse_time
from cepbook.testing.cell_reader import CellStep
from cepbook.testing.runner import StepResult
from cepbook.testing.trace import Advance, Iterate, Reaction, ReadRows, Send, StatementDelivery, Stimulus

Row = dict[str, Any]


class EventTimes:
    """The times in the rows of a workbench's statements."""

    def __init__(self, workbench: Workbench) -> None:
        self.second = workbench.runtime.config.second
        self._runtime = workbench.runtime
        self._times = TimeColumns(workbench.runtime)

    def columns(self, stimulus: Stimulus | None, reaction: Reaction) -> frozenset[str]:
        """Return the columns of a reaction's rows that hold times."""
        match reaction, stimulus:
            case StatementDelivery(name), _:
                return self._times.of_statement(name)
            case ReadRows(), Iterate(name):
                return self._times.of_statement(name)
        return frozenset()

    def read(self, parts: Iterable[CellStep]) -> tuple[CellStep, ...]:
        """Convert the times of expected reactions to numbers; text that is no time stays and equals no time."""
        return tuple(
            replace(step, step=replace(step.step, reactions=self.stated(step.step.stimulus, step.step.reactions)))
            for step in parts
        )

    def untimely(self, parts: Iterable[CellStep]) -> str | None:
        """Return a note on the first event whose time differs from the clock, or None.

        The author of such a cell may expect that events move the clock.
        """
        now = self._runtime.now
        for step in parts:
            match step.step.stimulus:
                case Advance(time):
                    now = max(now, time)
                case Send(name, event):
                    of = self._runtime.catalog.event_types[name].time_property
                    said = None if of is None else self._number(event.get(of))
                    if type(said) is int and said != now:
                        at, clock = (format_time(time, second=self.second) for time in (said, now))
                        return f"`{of}` of {name} is {at}, the clock is at {clock}: events do not move it, `t = …` does"
        return None

    def stated(self, stimulus: Stimulus | None, reactions: Iterable[Reaction]) -> tuple[Reaction, ...]:
        """Convert the times of expected reactions to numbers."""
        return tuple(_changed(reaction, self.columns(stimulus, reaction), self._number) for reaction in reactions)

    def written(self, result: StepResult) -> StepResult:
        """Convert the times of a result, expected and actual, to the text a cell would use."""
        step = result.step
        expected, actual = (
            tuple(_changed(reaction, self.columns(step.stimulus, reaction), self.text) for reaction in reactions)
            for reactions in (step.reactions, result.actual)
        )
        return replace(result, step=replace(step, reactions=expected), actual=actual)

    def text(self, value: Any) -> Any:
        """Format a time so that `read` reads it; any other value stays."""
        if type(value) is not int:
            return value
        formatted = format_time(value, second=self.second)
        return formatted if self._number(formatted) == value else value

    def _number(self, value: Any) -> Any:
        if isinstance(value, str):
            with suppress(UsageError):
                return parse_time(value, self.second)
        return value


def _changed(reaction: Reaction, columns: frozenset[str], change: Callable[[Any], Any]) -> Reaction:
    def of(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple({name: change(v) if name in columns else v for name, v in row.items()} for row in rows)

    match reaction:
        case StatementDelivery(name, insert, remove) if columns:
            return StatementDelivery(name, of(insert), of(remove))
        case ReadRows(rows) if columns:
            return ReadRows(of(rows))
    return reaction
