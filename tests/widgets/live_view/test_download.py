"""Files of a view: what it displays, written aside."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.widgets.live_view.download import Download, DownloadRequest, file_bytes
from cepbook.widgets.live_view.file_rows import FileRows
from cepbook.widgets.live_view.view_source import WorkbenchSource

PRICES = 300


def workbench() -> tuple[Workbench, WorkbenchSource]:
    """A workbench whose statement has delivered more rows than memory has."""
    cep = Workbench(feed_capacity=50)
    cep.run("create schema Tick(symbol string, price double); @name('out') select irstream * from Tick#length(200)")
    for price in range(PRICES):
        cep.send("Tick", symbol="ab"[price % 2], price=float(price))
    return cep, WorkbenchSource(cep, "out")


def lines(source: WorkbenchSource, **content: object) -> list[str]:
    """The lines of a file."""
    request = DownloadRequest.of({"id": "1", "form": "csv", "stream": True, **content})
    assert request is not None
    return file_bytes(source.file_rows(request)(), request.form, "out", headings=request.headings).decode().splitlines()


@pytest.mark.parametrize(
    ("content", "prices"),
    [
        ({}, [*range(PRICES), *range(100)]),
        ({"minus": False, "conditions": {"price": "< 5", "symbol": "a"}}, [0, 2, 4]),
        ({"filter": "b", "minus": False, "by": "price", "down": True, "span": [0, 2]}, [299, 297]),
        ({"minus": False, "conditions": {"price": "> x"}, "span": [298, 900]}, [298, 299]),
        ({"before": 3}, [0, 1, 2]),
        ({"stream": False}, range(100, 300)),
        ({"stream": False, "by": "price", "down": True, "conditions": {"price": "<= 103"}}, [103, 102, 101, 100]),
        ({"stream": False, "span": [0, 3]}, [100, 101, 102]),
    ],
)
def test_a_file_has_the_rows_that_are_displayed(content: dict[str, object], prices: list[int]) -> None:
    _, source = workbench()
    heading, *rows = lines(source, **content)
    at = heading.split(",").index("price")
    assert sorted(float(row.split(",")[at]) for row in rows) == sorted(map(float, prices))
    if "by" in content:
        assert [float(row.split(",")[at]) for row in rows] == list(map(float, prices))


def test_a_file_has_the_columns_that_are_displayed() -> None:
    _, source = workbench()
    assert lines(source)[0] == "time,seq,kind,symbol,price"
    assert lines(source, columns=["price", "time", "no such"])[0] == "price,time,seq"
    assert lines(source, columns=["symbol"], span=[0, 2]) == ["symbol", "a", "b"]
    assert lines(source, stream=False, columns=["price", "symbol"], span=[0, 1]) == ["price,symbol", "100.0,a"]
    assert lines(source, form="text", columns=["price", "symbol"], span=[1, 2], headings=False) == ["1.0\tb"]


@pytest.mark.parametrize("content", [{"form": "exe"}, {}, {"form": ["csv"]}])
def test_a_request_that_makes_no_sense_is_none(content: dict[str, Any]) -> None:
    assert DownloadRequest.of(content) is None


def request(form: str = "csv") -> DownloadRequest:
    wanted = DownloadRequest.of({"id": "1", "form": form, "stream": True})
    assert wanted is not None
    return wanted


def test_a_reset_while_a_file_is_written_changes_nothing() -> None:
    cep, source = workbench()
    sent: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    go = threading.Event()
    read = source.file_rows(request())

    def take(message: dict[str, Any], parts: list[bytes]) -> None:
        sent.append(message)
        buffers.extend(parts)

    download = Download(request(), "out", lambda: (go.wait(60), read())[1], take)
    with cep._lock:  # the workbench is busy in another thread
        download.start()
        cep.reset()
        go.set()
        download.join(60)
    assert sent[-1]["rows"] == 400 and sent[-1]["file"] == "out.csv"
    assert len(b"".join(buffers).decode().splitlines()) == 401


def test_what_goes_wrong_is_told_to_the_page() -> None:
    sent: list[dict[str, Any]] = []

    def fail() -> FileRows:
        raise OSError("the disk is full")

    def refuse() -> FileRows:
        raise UsageError("no")

    for read, text in ((fail, "OSError: the disk is full"), (refuse, "no")):
        download = Download(request(), "out", read, lambda message, parts: sent.append(message))
        download.start()
        download.join(60)
        assert sent[-1]["problem"] == text and not download.runs


def test_a_cancelled_file_sends_nothing_more() -> None:
    _, source = workbench()
    sent: list[object] = []
    download = Download(request(), "out", source.file_rows(request()), lambda message, parts: sent.append(message))
    download.cancel()
    download.start()
    download.join(60)
    assert sent == []

    def gone(message: object, parts: object) -> None:
        raise RuntimeError("the connection is closed")

    download = Download(request(), "out", source.file_rows(request()), gone)
    download.start()
    download.join(60)  # and nothing is printed
    assert not download.runs
