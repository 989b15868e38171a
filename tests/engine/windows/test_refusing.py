"""A window that may refuse events is shown every arrival, whatever another one refused, and gives back what it took."""

from __future__ import annotations

from cepbook.engine.windows.combined import WindowUnion, intersection
from cepbook.engine.windows.firstlength import FirstLengthWindow
from cepbook.engine.windows.length import LengthWindow
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


class Gap(QueueView):
    """Every second event."""

    __slots__ = ("seen",)
    refuses = True

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        self.seen += 1
        if self.seen % 2:
            return None
        self.items.append(item)
        return (item,), ()


def test_an_intersection_shows_an_event_to_all_that_may_refuse_it() -> None:
    gap, first, latest = Gap(), FirstLengthWindow(2), LengthWindow(2)
    view = intersection(latest, first, gap)
    taken = [number for number in range(8) if view.arrive((number,), 0) is not None]
    assert gap.seen == 8
    assert taken == [1, 3]  # every second, until there are two
    assert [list(each.contents()) for each in (gap, first, latest)] == [[(1,), (3,)]] * 3


def test_a_union_keeps_what_one_of_its_windows_took() -> None:
    gap = Gap()
    view = WindowUnion(gap, FirstLengthWindow(1))
    assert [view.arrive((number,), 0) is not None for number in range(4)] == [True, True, False, True]
    assert gap.seen == 4 and list(view.contents()) == [(0,), (1,), (3,)]
