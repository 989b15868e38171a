"""The options of a replay in one record, from `Workbench.replay` down to the sources and the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cepbook.errors import ErrorPolicy, UsageError
from cepbook.session.io.text_files import DEFAULT, TextFormat

LatePolicy = Literal["error", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How events are read and sent; `Workbench.replay` explains each option. Times and periods are in clock units.

    `late_stream`: late events become events of the type `LateEvent`. `skip` is the number of events that the engine has
    already. Raises UsageError for a bad `limit` or `speed`.
    """

    until: int | None = None
    limit: int | None = None
    speed: float | None = None
    sort: bool = True
    late: LatePolicy = "error"
    lateness: int = 0
    late_stream: bool = False
    form: TextFormat = DEFAULT  # of text files
    paused: bool = False
    leap: bool = False
    errors: ErrorPolicy = "raise"
    skip: int = 0

    def __post_init__(self) -> None:
        check_speed(self.speed)
        if self.limit is not None and not (isinstance(self.limit, int) and self.limit >= 0):
            raise UsageError(f"the limit of a replay is a number of events, not {self.limit!r}")


def check_speed(speed: object) -> None:
    """Raise UsageError unless `speed` is None or a factor above 0."""
    if speed is not None and not (isinstance(speed, int | float) and speed > 0):
        raise UsageError(f"the speed of a replay is a factor above 0, not {speed!r}")
