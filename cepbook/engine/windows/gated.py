"""Windows with a gate, before which events wait."""

from __future__ import annotations

from cepbook.engine.windows.window_view import Item, QueueView


class GatedView(QueueView):
    """A queue, and what waits to enter it."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Item] = []

    def discard(self, item: Item) -> None:
        super().discard(item)
        self.waiting = [each for each in self.waiting if each[0] != item[0]]

    def clear(self) -> list[Item]:
        self.waiting = []
        return super().clear()

    def retained(self) -> int:
        return len(self) + len(self.waiting)
