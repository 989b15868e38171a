"""Where the statements stood when a cell began, for ``%%expect``: what the latest cell caused that did something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cepbook.feeds import Feed
from cepbook.session import Workbench


@dataclass(frozen=True, slots=True)
class DeliveryMarks:
    """How many deliveries each statement's feed had had, and how often each statement had failed."""

    feeds: Mapping[str, tuple[Feed, int]] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)

    def cursor(self, name: str, feed: Feed) -> int:
        """The number of the first delivery after these marks; 0 for a feed that was not there."""
        before, cursor = self.feeds.get(name, (feed, 0))
        return cursor if before is feed else 0

    def failed(self, name: str, workbench: Workbench) -> bool:
        """Whether the statement has failed since."""
        return workbench.failures.get(name, 0) > self.failures.get(name, 0)


class CellMarks:
    """The marks of the beginning of the present cell, and of that of the latest cell that did something."""

    def __init__(self) -> None:
        self.latest = DeliveryMarks()
        self._begun = DeliveryMarks()

    def begin(self, workbench: Workbench) -> None:
        """A cell begins. If statements delivered or failed since the one before began, that one did something."""
        now = DeliveryMarks({n: (f, f.deliveries) for n, f in _feeds(workbench)}, workbench.failures)
        moved = any(count > self._begun.cursor(name, feed) for name, (feed, count) in now.feeds.items())
        if moved or any(self._begun.failed(name, workbench) for name in now.failures):
            self.latest = self._begun
        self._begun = now


def _feeds(workbench: Workbench) -> list[tuple[str, Feed]]:
    return [(name, workbench.feed(name)) for name in workbench.runtime.statements]
