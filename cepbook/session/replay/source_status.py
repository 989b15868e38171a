"""The state of one live source: its rate, the age of its last item, lost connections with their gaps, and rejections.

Counters are kept as items come. `SourceStatus.row` makes what tables and the widget display.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from cepbook.session.io.live.live_sources import Link, Malformed
from cepbook.session.io.rejected_events import common_reason

WINDOW = 5.0  # seconds over which a rate is measured
GRAIN = 0.25  # seconds between two samples of a rate
KEPT = 100  # reconnections that are kept

Now = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Reconnection:
    """A lost connection: the time of the loss in ns since 1970, why, and the seconds until the next connection.

    `gap` is None while there is no connection.
    """

    lost: int
    reason: str
    gap: float | None


@dataclass(frozen=True, slots=True)
class Rejection:
    """Items that were rejected for one reason, values apart: how many, and the first and the last of them."""

    count: int
    first: Malformed
    last: Malformed


class SourceStatus:
    """The state of the source of one event type.

    `state` is ``running``, ``reconnecting``, ``finished``, ``stopped`` or ``failed``. `note` is the last report of the
    source. `count` is the number of items, `arrived` the time of the last one in ns since 1970.
    """

    def __init__(self, name: str, now: Now) -> None:
        self.name = name
        self.state = "running"
        self.note = ""
        self.count = 0
        self.arrived: int | None = None
        self.reconnections: deque[Reconnection] = deque(maxlen=KEPT)
        self.lost = self.reconnected = 0  # connections
        self.gap = 0.0
        self.rejections: dict[str, Rejection] = {}
        self._now = now
        self._samples: deque[tuple[int, int]] = deque([(now(), 0)])

    def take(self) -> None:
        """Count an item that arrives now."""
        self.count += 1
        self.arrived = now = self._now()
        if now - self._samples[-1][0] >= GRAIN * 1e9:
            self._samples.append((now, self.count))
            self._forget(now)

    def _forget(self, now: int) -> None:
        while len(self._samples) > 1 and now - self._samples[0][0] > WINDOW * 1e9:
            self._samples.popleft()

    @property
    def rate(self) -> float:
        """Items per second over the last seconds."""
        now = self._now()
        self._forget(now)
        began, before = self._samples[0]
        return (self.count - before) / max(1.0, (now - began) / 1e9)

    @property
    def age(self) -> float | None:
        """Seconds since the last item; None before the first one."""
        return None if self.arrived is None else max(0.0, (self._now() - self.arrived) / 1e9)

    def link(self, change: Link) -> tuple[str, str, float]:
        """Note a change of the connection. Return it as an event: a word, the reason, and the gap in seconds.

        The word is empty if there is nothing new, as when another attempt to connect fails.
        """
        if change.lost:
            known = self.state == "reconnecting"
            self.state, self.note = "reconnecting", change.reason
            if known:
                return "", "", 0.0
            self.lost += 1
            self.reconnections.append(Reconnection(self._now() - round(change.silence * 1e9), change.reason, None))
            return self.state, change.reason, 0.0
        if self.state == "reconnecting":
            last = self.reconnections.pop()
            gap = max(0.0, (self._now() - last.lost) / 1e9)
            self.reconnections.append(replace(last, gap=gap))
            self.state, self.note = "running", change.reason or f"reconnected after {gap:.1f} s: {last.reason}"
            self.reconnected += 1
            self.gap += gap
            return "reconnected", last.reason, gap
        self.note = change.reason or self.note
        return "notice" if change.reason else "connected", change.reason, 0.0

    def reject(self, item: Malformed) -> None:
        """Count an item that is no event under its reason."""
        reason = common_reason(item.reason, self.rejections)
        known = self.rejections.get(reason)
        count, first = (0, item) if known is None else (known.count, known.first)
        self.rejections[reason] = Rejection(count + 1, first, item)
