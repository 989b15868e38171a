"""A fork beside a sending thread, and listeners that wait for a thread that waits for them."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable

import pytest

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.locks import WatchedLock

FORKS = int(os.environ.get("CEPBOOK_FORKS", "10"))


def bench() -> Workbench:
    cep = Workbench()
    cep.run("create schema E(x int); @name('out') select x, count(*) as n from E")
    return cep


def in_child(work: Callable[[], object]) -> str:
    """What `work` gives in a forked process, ``hangs`` if it takes more than ten seconds."""
    fork = multiprocessing.get_context("fork")
    reading, writing = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: writing.send(str(work())))
    child.start()
    answer = reading.recv() if reading.poll(10) else "hangs"
    child.kill()
    child.join()
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_beside_a_sending_thread_is_whole() -> None:
    cep, over = bench(), threading.Event()
    cep.feed_capacity = 1_000  # most rows are in the file of those that the feed dropped

    def send() -> None:
        for _ in range(300_000):
            if over.is_set():
                break
            cep.send("E", x=1)

    def work() -> object:
        before = len(cep.changes("out"))
        cep.send("E", x=2)
        rows = cep.changes("out")
        return len(rows) == before + 1 and rows["n"].tolist() == list(range(1, len(rows) + 1))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        assert [in_child(work) for _ in range(FORKS)] == ["True"] * FORKS
    finally:
        over.set()
        sender.join()
    assert len(cep.changes("out"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_inside_a_long_event_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.locks.LONGEST_WAIT", 0.1)
    cep, inside, over = bench(), threading.Event(), threading.Event()
    cep.on("out", lambda delta: (inside.set(), over.wait(10)))
    sender = threading.Thread(target=lambda: cep.send("E", x=1))
    sender.start()
    assert inside.wait(10)

    def work() -> str:
        try:
            cep.send("E", x=2)
        except UsageError as error:
            return str(error)
        return "silence"

    try:
        assert "interrupted in the middle" in in_child(work)
    finally:
        over.set()
        sender.join()
    cep.send("E", x=2)


def waits_by_join(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def waits_for_a_signal(thread: threading.Thread) -> None:
    done = threading.Event()
    inner = threading.Thread(target=lambda: (thread.start(), thread.join(), done.set()))
    inner.start()
    done.wait()


@pytest.mark.parametrize("waits", [waits_by_join, waits_for_a_signal])
def test_a_listener_that_waits_for_a_thread_that_sends_is_told(
    waits: Callable[[threading.Thread], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WatchedLock, "LOOK", 0.05)
    monkeypatch.setattr(WatchedLock, "PATIENCE", 0.5)
    cep, failures = bench(), list[str]()

    def send() -> None:
        try:
            cep.send("E", x=2)
        except UsageError as error:
            failures.append(str(error))

    cep.on("out", lambda delta: waits(threading.Thread(target=send)))
    cep.send("E", x=1)
    assert len(failures) == 1
    assert "the listener of `out` waits for a thread" in failures[0] and "queue.Queue" in failures[0]
    assert len(cep.changes("out")) == 1


def test_a_listener_that_is_only_slow_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchedLock, "LOOK", 0.02)
    monkeypatch.setattr(WatchedLock, "PATIENCE", 0.1)
    cep, inside = bench(), threading.Event()

    def slow(delta: object) -> None:
        inside.set()
        time.sleep(0.3)
        threading.Event().wait(0.3)  # with a timeout: it ends by itself

    end = cep.on("out", slow)
    first = threading.Thread(target=lambda: cep.send("E", x=1))
    first.start()
    assert inside.wait(10)
    cep.send("E", x=2)
    first.join()
    end()
    assert len(cep.changes("out")) == 2


def test_streams_may_come_and_go_in_another_thread_while_readers_are_looked_for() -> None:
    cep, over = bench(), threading.Event()
    failures = list[BaseException]()

    def open_streams() -> None:
        try:
            while not over.is_set():
                streams = [cep.stream("out") for _ in range(20)]
                streams[0].close()
        except BaseException as error:  # noqa: BLE001  looked at below
            failures.append(error)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=open_streams)
    thread.start()
    try:
        sys.setswitchinterval(1e-6)
        for _ in range(300):
            assert cep._engine.full_reader() is None
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    assert not failures
