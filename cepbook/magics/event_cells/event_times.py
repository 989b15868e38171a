"""Times of events in the rows that a cell states and shows: texts to people, numbers where they are compared and kept.

Which columns hold times is known of what statements deliver and of what ``iterate`` reads (`session.inspect.times`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cepbook.display import format_time
from cepbook.errors import UsageError
from cepbook.magics.event_cells.cell_reader import CellStep
from cepbook.session import Workbench
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.time_conversion import parse_time
from cepbook.testing.runner import StepResult
from cepbook.testing.trace import Advance, Iterate, Reaction, ReadRows, Send, StatementDelivery, Stimulus

Row = dict[str, Any]


class EventTimes:
    """The times among the rows of a workbench's statements."""

    def __init__(self, workbench: Workbench) -> None:
        self.second = workbench.runtime.config.second
        self._runtime = workbench.runtime
        self._times = TimeColumns(workbench.runtime)

    def columns(self, stimulus: Stimulus | None, reaction: Reaction) -> frozenset[str]:
        """The columns of a reaction's rows that hold times."""
        match reaction, stimulus:
            case StatementDelivery(name), _:
                return self._times.of_statement(name)
            case ReadRows(), Iterate(name):
                return self._times.of_statement(name)
        return frozenset()

    def read(self, parts: Iterable[CellStep]) -> tuple[CellStep, ...]:
        """What a cell states with its times as numbers; a text that is none stays, and differs from any time."""
        return tuple(
            replace(part, step=replace(part.step, reactions=self.stated(part.step.stimulus, part.step.reactions)))
            for part in parts
        )

    def untimely(self, parts: Iterable[CellStep]) -> str | None:
        """The first event that says another time than the clock's: who writes it may expect the clock to follow.

        None: there is none.
        """
        now = self._runtime.now
        for part in parts:
            match part.step.stimulus:
                case Advance(time):
                    now = max(now, time)
                case Send(name, event):
                    of = self._runtime.catalog.event_types[name].time_property
                    said = None if of is None else self._number(event.get(of))
                    if type(said) is int and said != now:
                        at, clock = (format_time(each, second=self.second) for each in (said, now))
                        return f"`{of}` of {name} is {at}, the clock is at {clock}: events do not move it, `t = …` does"
        return None

    def stated(self, stimulus: Stimulus | None, reactions: Iterable[Reaction]) -> tuple[Reaction, ...]:
        """Reactions that a cell states, times as numbers."""
        return tuple(_changed(each, self.columns(stimulus, each), self._number) for each in reactions)

    def written(self, result: StepResult) -> StepResult:
        """A result with its times as a cell would state them, expected ones and those that came."""
        step = result.step
        expected, actual = (
            tuple(_changed(each, self.columns(step.stimulus, each), self.text) for each in reactions)
            for reactions in (step.reactions, result.actual)
        )
        return replace(result, step=replace(step, reactions=expected), actual=actual)

    def text(self, value: Any) -> Any:
        """A time as the text that `read` reads; what is none, as it is."""
        if type(value) is not int:
            return value
        shown = format_time(value, second=self.second)
        return shown if self._number(shown) == value else value

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
