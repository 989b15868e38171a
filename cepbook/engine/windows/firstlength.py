"""``firstlength(n)``: the first n events; later ones are refused and have no effect.

::

    firstlength(2)
    arrivals   a   b   c
    contents   a   ab  ab

The first three bids of every auction: ``select * from Bid#groupwin(auction)#firstlength(3)``.

An event leaves only if another window or a statement removes it. The next event then takes its slot::

    arrivals   a   b   c   (a is deleted)   d
    contents   a   ab  ab  b                bd
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import WindowCodegen, creates, size
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


class FirstLengthWindow(QueueView):
    """The view of ``firstlength``.

    It refuses items while it holds `size` of them. Neither time nor an arrival makes room, only `discard`,
    which a statement or another window of an intersection calls.
    """

    size: int
    refuses = True

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        if len(self) >= self.size:
            return None
        self.items.append(item)
        return (item,), ()


WINDOW = WindowCodegen(creates(FirstLengthWindow, size()))
