"""``keepall``: every event stays.

::

    arrivals   a   b   c
    contents   a   ab  abc
"""

from __future__ import annotations

from cepbook.engine.rows.windows.form import ENTERS, Arriving, Posted, Window, queue
from cepbook.engine.rows.windows.view import Change, Item, Queue


def _arrive(arrival: Arriving) -> Posted:
    arrival.queue()
    arrival.source.line(f"queue.append({arrival.item})")
    return ENTERS


class KeepAll(Queue):
    """The view of ``keepall``."""

    __slots__ = ()

    def arrive(self, item: Item, now: int) -> Change:
        self.items.append(item)
        return (item,), ()


WINDOW = Window(lambda code, spec, at: f"{code.source.bind('_KeepAll', KeepAll)}()", fragment=_arrive, ahead=queue)
