"""What `session.why.fallen` tells of an event: its course at each statement, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cepbook.session.why.acting import Stage
from cepbook.session.why.made import Piece

ROWS = 20  # delivered rows that are told


@dataclass(frozen=True, slots=True)
class Course:
    """What became of the event at one statement: `delivered`, `kept` (it is held, or counts, and nothing is delivered),
    ``fell out`` or ``not known``. `rows` are the first `ROWS` of those delivered: (``+`` or ``−``, row); of its columns
    `times` hold times in units of the clock.
    """

    statement: str
    outcome: str
    stages: tuple[Stage, ...]
    rows: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    notes: tuple[str, ...] = ()
    times: tuple[str, ...] = ()

    @property
    def fell_at(self) -> Stage | None:
        """The first stage that it did not pass."""
        return next((stage for stage in self.stages if stage.passed is False), None)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of `event`: one course for each statement that reads events of its type. `supposed`: it was not sent,
    but handed in, and would come now. `times` are the properties of its type that hold times in units of the clock."""

    event: Piece
    courses: tuple[Course, ...]
    supposed: bool = False
    second: int = 1000
    times: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)
