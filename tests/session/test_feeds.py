"""Feed: bounded, cheap, readable by cursor."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from functools import partial
from typing import Any

import pytest

from cepbook import feed_segments
from cepbook.errors import UsageError
from cepbook.feeds import MAX_PENDING, Delivery, Feed
from cepbook.session.workbench import Workbench


def rows(n: int) -> list[dict[str, int]]:
    return [{"i": i} for i in range(n)]


def records(time: int, n: int) -> list[Any]:
    """A delivery of `n` insert rows."""
    return [entry for i, row in enumerate(rows(n)) for entry in (int(i > 0), time, row)] or [4, time, None]


def test_counts_and_order() -> None:
    feed = Feed(100)
    feed.push(1, rows(2), None)
    feed.extend([2, 2, {"i": 0}, 3, 2, {"i": 1}, 3, 2, {"i": 2}, 0, 3, {"i": 0}, 3, 3, {"i": 0}])
    assert (feed.total_insert, feed.total_remove, feed.deliveries, feed.dropped, feed.rows) == (3, 4, 3, 0, 7)
    assert feed.snapshot()[1] == Delivery(1, 2, None, rows(3))
    assert repr(feed) == "Feed(3 insert, 4 remove, 0 deliveries dropped)"


def test_rows_without_columns_are_counted_and_shown() -> None:
    cep = Workbench()
    cep.run(
        "create schema A(k string); create variant schema Mixed as *; insert into Mixed select * from A;"
        "@name('all') select irstream * from Mixed#length(1)"
    )
    for key in "ab":
        cep.send("A", k=key)
    assert [(d.insert, d.remove) for d in cep.feed("all").snapshot()] == [([{}], None), ([{}], [{}])]
    assert list(cep.changes("all")["kind"]) == ["insert", "insert", "remove"]


def test_a_reader_never_sees_more_than_capacity() -> None:
    feed = Feed(5)
    for i in range(20):
        feed.push(i, rows(2), None)
    assert [d.number for d in feed.snapshot()] == [18, 19]
    assert (feed.dropped, feed.total_insert, feed.rows, len(feed)) == (18, 40, 4, 2)


def test_the_newest_delivery_stays_even_when_it_is_too_large() -> None:
    feed = Feed(3)
    feed.push(1, rows(1), None)
    feed.push(2, rows(10), None)
    assert [d.time for d in feed.snapshot()] == [2]


def test_empty_deliveries_are_bounded_too() -> None:
    feed = Feed(10)
    for i in range(5_000):
        feed.push(i, None, None)
    assert len(feed.snapshot()) == 10


def known_rows(feed: Feed) -> list[int]:
    """The numbers of all rows since the start, as far as they are known."""
    return [value["i"] for segment in feed.everything() for value in segment.values[0]]


def test_all_that_was_dropped_is_in_the_log_however_it_is_read_meanwhile() -> None:
    feed = Feed(10, log=1 << 20)
    for i in range(1_000):
        feed.push(i, [{"i": i}], None)
        if i % 97 == 0:
            assert known_rows(feed) == list(range(i + 1))
    assert known_rows(feed) == list(range(1_000)) and feed.dropped == 990


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no file here is always full")
def test_rows_wait_in_memory_while_the_disk_is_full_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    full = partial(open, "/dev/full", "w+b")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda prefix, buffering: full(buffering=buffering))
    monkeypatch.setattr(feed_segments, "WAITING_ROWS", 50)
    feed = Feed(10, log=1 << 20)
    for i in range(40):
        feed.push(i, [{"i": i}], None)
    assert (known_rows(feed), feed.lost) == (list(range(40)), 0)
    for i in range(40, 100):
        feed.push(i, [{"i": i}], None)
    assert known_rows(feed) == list(range(90, 100)), "what the feed keeps itself"
    assert (feed.lost, feed.rows) == (90, 10)


class Unruly:
    """Fails as no library does, when it is pickled or when it is unpickled."""

    def __init__(self, fails_late: bool) -> None:
        self.fails_late = fails_late

    def __reduce__(self) -> Any:
        if self.fails_late:
            return int, ("no number",)
        raise KeyError("anything")


@pytest.mark.parametrize("fails_late", [False, True])
def test_a_value_that_cannot_be_written_or_read_loses_the_log(fails_late: bool) -> None:
    feed = Feed(10, log=1 << 20)
    for i in range(40):
        feed.push(i, [{"i": Unruly(fails_late) if i == 3 else i}], None)
    assert known_rows(feed)[-10:] == list(range(30, 40))
    assert feed.lost in (27, 30)


def test_a_reader_keeps_reading_what_is_cleared_meanwhile() -> None:
    feed = Feed(10, log=1 << 20)
    for i in range(100):
        feed.push(i, [{"i": i}], None)
    reader = feed.everything()
    first = next(reader).values[0]
    feed.clear()
    for i in range(100):
        feed.push(i, [{"i": -i}], None)
    assert [value["i"] for value in first] + [v["i"] for segment in reader for v in segment.values[0]] == list(
        range(100)
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes_share_the_log_only_to_read_it() -> None:
    """Parent and children append and read at the same time; each sees its own rows."""
    feed = Feed(10, log=1 << 24)
    for i in range(3_000):
        feed.push(i, [{"i": i}], None)

    def work(sign: int) -> bool:
        right = True
        for i in range(3_000, 4_000):
            feed.push(i, [{"i": sign * i}], None)
            right = right and (
                i % 50 > 0 or known_rows(feed) == [*range(3_000), *(sign * k for k in range(3_000, i + 1))]
            )
        return right

    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            status = 1
            try:
                status = 0 if work(-1) else 1
            finally:
                os._exit(status)
        children.append(child)
    right = work(1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert right and known_rows(feed) == list(range(4_000))


def test_since_reads_on_from_a_cursor_and_says_what_was_missed() -> None:
    feed = Feed(10)
    feed.push(1, rows(1), None)
    first = feed.since()
    assert (len(first.deliveries), first.cursor, first.missed) == (1, 1, 0)
    assert feed.since(first.cursor) == ([], 1, 0)
    for i in range(25):
        feed.push(i, rows(1), None)
    later = feed.since(first.cursor)
    assert (later.deliveries[0].number, later.cursor, later.missed) == (16, 26, 15)
    assert feed.since(99).deliveries == []


def test_agrees_with_a_naive_feed() -> None:
    chance = random.Random(7)
    feed, naive = Feed(300), list[Delivery]()
    for step in range(4_000):
        size = chance.choice([0, 1, 1, 1, 2, 40])
        naive.append(Delivery(step, step, rows(size) or None, None))
        if chance.random() < 0.5:
            feed.push(step, rows(size), None)
        else:
            feed.extend(records(step, size))
        if chance.random() < 0.01:
            while len(naive) > 300 or sum(len(d.insert or ()) for d in naive) > 300:
                naive.pop(0)
            assert feed.snapshot() == naive
            assert feed.dropped == step + 1 - len(naive)


@pytest.mark.parametrize("names", [None, ("i", "j")])
def test_columns_are_the_rows_of_the_deliveries(names: tuple[str, ...] | None) -> None:
    chance = random.Random(3)
    feed = Feed(400)
    if names is not None:
        feed.describe(names, lambda row: dict(zip(names, row, strict=True)))

    def side(step: int) -> list[Any] | None:
        size = chance.choice([0, 0, 1, 1, 1, 2, 30])
        return [{"i": step, "j": j} if names is None else (step, j) for j in range(size)] or None

    for step in range(3_000):
        feed.push(step, side(step), side(step) if chance.random() < 0.3 else None)
        if chance.random() < 0.02:
            cursor, limit = step - chance.randrange(200), chance.choice([None, 1, 5, 50, 1_000])
            rows = [
                (d.number, d.time, delta_rows is d.insert, row["i"], row["j"], None)
                for d in feed.since(cursor).deliveries
                for delta_rows in (d.insert, d.remove)
                for row in delta_rows or ()
            ]
            columns = feed.columns(cursor, limit)
            values = [columns.column(name) for name in ("i", "j", "none")]
            lines = list(zip(columns.numbers, columns.times, columns.inserts, *values, strict=True))
            assert lines == rows[-(limit or 10**9) :]
            assert columns.cursor == step + 1


def test_a_reader_may_change_what_it_gets() -> None:
    feed = Feed()
    feed.push(1, [{"i": 1}], [{"i": 0}])
    for side in (feed.snapshot()[0].insert, feed.snapshot()[0].remove):
        assert side is not None
        side[0]["i"] = 5
    assert feed.snapshot() == [Delivery(0, 1, [{"i": 1}], [{"i": 0}])]


@pytest.mark.histories
def test_a_reader_in_another_thread_sees_whole_deliveries() -> None:
    feed, stop = Feed(3_000), threading.Event()
    feed.describe(("i", "j"), lambda row: {"i": row[0], "j": row[1]})
    wrong: list[Delivery] = []

    def read() -> None:
        cursor = 0
        while not stop.is_set():
            news = feed.since(cursor)
            for one in news.deliveries:
                if [row["i"] for row in one.insert or ()] != [one.number] * (one.time + 1):
                    wrong.append(one)
            cursor = news.cursor

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30_000):
        if number % 3:
            feed.extend([v for j in range(number % 3 + 1) for v in (int(j > 0), number % 3, number, j)])
        else:
            feed.one((0, 0, number, 0))
    stop.set()
    reader.join()
    assert not wrong
    assert feed.deliveries == 30_000


def test_memory_between_reads_is_bounded() -> None:
    feed = Feed(1_000)
    for i in range(10 * MAX_PENDING):
        feed.push(i, rows(100), None)
    retained = len(feed._pending) + sum(rows for _, _, rows in feed._segments)
    assert retained <= 1_000 + 100 * MAX_PENDING


def test_subscribers_are_told_once_until_someone_reads() -> None:
    feed, known_rows = Feed(10), list[int]()
    stop = feed.subscribe(lambda: known_rows.append(1))
    feed.push(1, rows(1), None)
    feed.push(2, rows(1), None)
    assert len(known_rows) == 1
    feed.since()
    feed.extend(records(3, 1))
    assert len(known_rows) == 2
    stop()
    feed.since()
    feed.push(4, rows(1), None)
    assert len(known_rows) == 2


def test_clear_keeps_cursors_valid() -> None:
    feed = Feed(10)
    feed.push(1, rows(1), None)
    cursor = feed.since().cursor
    feed.clear()
    assert (feed.total_insert, feed.rows, feed.snapshot()) == (0, 0, [])
    feed.push(2, rows(1), None)
    assert [d.time for d in feed.since(cursor).deliveries] == [2]
    assert feed


def test_capacity_must_be_positive() -> None:
    with pytest.raises(UsageError, match="at least 1 row"):
        Feed(0)


def test_an_element_that_is_assigned_later_does_not_change_what_was_delivered() -> None:
    bench = Workbench()
    bench.run(
        "create schema Up(v int); create schema Post(id string, xs int[]);"
        "@name('w') create window Held#keepall as Post; insert into Held select * from Post;"
        "@name('ids') select id, xs from Held; on Up u update Held set xs[0] = u.v;"
    )
    bench.send("Post", id="a", xs=[1, 2])
    bench.send("Up", v=7)
    before, after = ({"id": "a", "xs": xs} for xs in ([1, 2], [7, 2]))
    assert [d.insert for d in bench.feed("w").snapshot()] == [[before], [after]]
    assert [d.insert for d in bench.feed("ids").snapshot()] == [[before], [after]]
