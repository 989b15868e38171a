"""When context partitions were allocated and deallocated.

Recording costs one small object per partition. Per context the last `KEPT` partitions are kept, and the last `2 * KEPT`
changes of the number of live partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.contexts.partition_listeners import PartitionNotice

KEPT = 5_000


@dataclass(slots=True)
class PartitionLifetime:
    """One context partition, from `born` to `died` (None: it lives), in ms."""

    id: int
    properties: Mapping[str, Any]
    born: int
    died: int | None = None


@dataclass(slots=True)
class ContextLifetimes:
    """The latest partitions of one context, and the number of live ones as (time, number from then on)."""

    lives: deque[PartitionLifetime] = field(default_factory=lambda: deque(maxlen=KEPT))
    counts: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=2 * KEPT))
    allocated: int = 0
    live: int = 0
    _open: dict[int, PartitionLifetime] = field(default_factory=dict)

    def take(self, notice: PartitionNotice) -> None:
        """Record one notice."""
        kind, _, partition, properties, time = notice
        if kind == "allocated" and partition is not None:
            if len(self.lives) == KEPT:
                oldest = self.lives[0]
                if self._open.get(oldest.id) is oldest:  # ids restart when the context is activated again
                    del self._open[oldest.id]
            life = self._open[partition] = PartitionLifetime(partition, properties, time)
            self.lives.append(life)
            self.allocated += 1
            self._count(time, self.live + 1)
        elif kind == "deallocated" and partition is not None:
            ended = self._open.pop(partition, None)
            if ended is not None:
                ended.died = time
            self._count(time, max(0, self.live - 1))
        elif kind == "deactivated":
            for lifetime in self._open.values():
                lifetime.died = time
            self._open.clear()
            self._count(time, 0)

    def _count(self, time: int, live: int) -> None:
        self.live = live
        if self.counts and self.counts[-1][0] == time:
            self.counts.pop()
        self.counts.append((time, live))


class PartitionLifetimes:
    """The partitions of all contexts of a runtime, by context name."""

    def __init__(self) -> None:
        self._contexts: dict[str, ContextLifetimes] = {}

    def take(self, notice: PartitionNotice) -> None:
        """Record one notice."""
        lifetimes = self._contexts.get(notice.context)
        if lifetimes is None:
            lifetimes = self._contexts[notice.context] = ContextLifetimes()
        lifetimes.take(notice)

    def of(self, context: str) -> ContextLifetimes:
        """Return the record of a context."""
        return self._contexts.get(context) or ContextLifetimes()

    def forget(self, context: str) -> None:
        """Forget a context, which was dropped."""
        self._contexts.pop(context, None)
