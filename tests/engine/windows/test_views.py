"""Windows as objects: what they keep, and that they keep no more."""

from __future__ import annotations

import random

from cepbook.engine.windows.combined import WindowIntersection
from cepbook.engine.windows.length import LengthWindow
from cepbook.engine.windows.unique import UniqueWindow
from cepbook.engine.windows.window_view import Item, QueueView


class Plain(QueueView):
    """A queue that takes everything."""

    def arrive(self, item: Item, now: int) -> tuple[tuple[Item], tuple[()]]:
        self.items.append(item)
        return (item,), ()


def test_a_queue_is_what_was_put_in_without_what_was_taken_out() -> None:
    rng = random.Random(5)
    queue = Plain()
    expected: list[Item] = []
    for ordinal in range(5000):
        item = (ordinal, 0)
        queue.arrive(item, 0)
        expected.append(item)
        for _ in range(rng.choice((0, 0, 1, 3))):
            if not expected:
                break
            if rng.random() < 0.3:
                assert queue.pop() == expected[0]
                queue.discard(expected.pop(0))  # left here, and so everywhere
            else:
                queue.discard(expected.pop(rng.randrange(len(expected))))
        assert len(queue) == len(expected)
        if ordinal % 50 == 0:
            assert list(queue.contents()) == expected
    assert queue.clear() == expected
    assert not len(queue)


def test_what_left_from_the_middle_takes_no_place() -> None:
    # the first event stays the last one of its key: nothing ever leaves at the old end
    queue = LengthWindow(1000)
    both = WindowIntersection([queue, UniqueWindow(2)])
    both.arrive((0, 0, "rare"), 0)
    for ordinal in range(1, 10_000):
        both.arrive((ordinal, 0, ordinal % 10), 0)
    assert both.retained() == 11
    assert len(queue.items) < 50
