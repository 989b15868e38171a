"""Marks of what statements had delivered when a cell began, for ``%%expect``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cepbook.feeds import Feed
from cepbook.session import Workbench


@dataclass(frozen=True, slots=True)
class DeliveryMarks:
    """The number of deliveries of each statement's feed, and the number of failures of each statement."""

    feeds: Mapping[str, tuple[Feed, int]] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)

    def cursor(self, name: str, feed: Feed) -> int:
        """Return the number of the first delivery after the marks; 0 for a feed that is new."""
        before, cursor = self.feeds.get(name, (feed, 0))
        return cursor if before is feed else 0

    def failed(self, name: str, workbench: Workbench) -> bool:
        """Return whether the statement has failed since."""
        return workbench.failures.get(name, 0) > self.failures.get(name, 0)


class CellMarks:
    """The marks at the start of the running cell, and at the start of the `latest` cell that had an effect."""

    def __init__(self) -> None:
        self.latest = DeliveryMarks()
        self._start = DeliveryMarks()

    def begin(self, workbench: Workbench) -> None:
        """Begin a cell. The cell before had an effect if statements delivered or failed since it began."""
        feeds = {name: workbench.feed(name) for name in workbench.runtime.statements}
        now = DeliveryMarks({name: (feed, feed.deliveries) for name, feed in feeds.items()}, workbench.failures)
        moved = any(count > self._start.cursor(name, feed) for name, (feed, count) in now.feeds.items())
        if moved or any(self._start.failed(name, workbench) for name in now.failures):
            self.latest = self._start
        self._start = now
