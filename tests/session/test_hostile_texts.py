"""Texts of extreme size or depth: refused with a diagnostic, soon, in every language; and malformed requests."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from cepbook import Workbench
from cepbook.errors import CepbookError
from cepbook.widgets.live_view.download import DownloadRequest

DIGITS = "1" * 4301
EPL = {
    "select": f"select {DIGITS} as y from E",
    "negative": f"select -{DIGITS} as y from E",
    "long": f"select {DIGITS}L as y from E",
    "hexadecimal": f"select 0x{'f' * 5000} as y from E",
    "exponent": f"select 1e{DIGITS} as y from E",
    "window": f"select x from E#length({DIGITS})",
    "period": f"select x from E#time({DIGITS} sec)",
    "priority": f"@priority({DIGITS}) select x from E",
    "repeat": f"select 1 as y from pattern[[{DIGITS}] a=E]",
    "crontab": f"select 1 as y from pattern[timer:at({DIGITS},*,*,*,*)]",
    "parentheses": f"select {'(' * 3000}x{')' * 3000} as y from E",
    "windows": f"select x from E{'#length(3)' * 3000}",
}
APAMA = {
    "number": f"from e in all E() select e.x + {DIGITS}",
    "hexadecimal": f"from e in all E() select e.x + 0x{'f' * 5000}",
    "and": f"from e in all E() where {' and '.join(['e.x > 1'] * 3000)} select e.x",
}
STREAMCRUNCHER = {
    "number": f"select x from E (partition store last {DIGITS}) as e",
    "parentheses": f"select {'(' * 1000}x{')' * 1000} as y from E (partition store last 3) as e",
}
TEXTS: Mapping[str, Mapping[str, str]] = {"epl": EPL, "apama": APAMA, "streamcruncher": STREAMCRUNCHER}


@pytest.mark.parametrize(("dialect", "name"), [(dialect, name) for dialect, texts in TEXTS.items() for name in texts])
def test_a_hostile_text_is_refused_and_changes_nothing(dialect: str, name: str) -> None:
    cep = Workbench()
    cep.run("create schema E(x int, k string)")
    with pytest.raises(CepbookError):
        cep.run(TEXTS[dialect][name], dialect=dialect)
    assert cep.problems(TEXTS[dialect][name], dialect=dialect)
    assert len(cep.runtime.deployments) == 1


MANY = 20_000
CHAINS: Mapping[tuple[str, str], str] = {
    ("epl", "windows"): f"select x from E{'#length(3)' * MANY}",
    ("epl", "and"): f"select x from E where {' and '.join(['x = 1'] * MANY)}",
    ("epl", "commas"): f"select {','.join(['x'] * (MANY + 1))} from E",
    ("epl", "methods"): f"select k{'.trim()' * MANY} as y from E",
    ("epl", "followed by"): f"select 1 as y from pattern[{'->'.join(['E'] * MANY)}]",
    ("epl", "streams"): f"select 1 as y from {','.join(['E#lastevent'] * MANY)}",
    ("apama", "and"): f"from e in all E() where {' and '.join(['e.x > 1'] * MANY)} select e.x",
    ("apama", "methods"): f"from e in all E() select e.k{'.trim()' * MANY}",
    ("apama", "plus"): f"from e in all E() select {'+'.join(['e.x'] * MANY)}",
    ("streamcruncher", "and"): f"select x from E (partition store last 3) as e where {' and '.join(['x = 1'] * MANY)}",
    ("streamcruncher", "commas"): f"select {','.join(['x'] * MANY)} from E (partition store last 3) as e",
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_long_chain_is_refused_at_once(chain: tuple[str, str]) -> None:
    """A text of up to 300 kB is counted before it is parsed, in far less than the two seconds that it may take."""
    cep, (dialect, _) = Workbench(), chain
    cep.run("create schema E(x int, k string)")
    began = time.process_time()
    with pytest.raises(CepbookError, match="a statement has at most 40,000 words and signs, this one has"):
        cep.run(CHAINS[chain], dialect=dialect)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"select {','.join(['x'] * 3_000)} from E", "column `x` occurs twice"),
        (f"select 1 as y from pattern[{'->'.join(['E'] * 1_500)}]", ""),
        (f"select 1 as y from {','.join(['E#lastevent'] * 1_500)}", "at most 40 streams, found 1,500"),
    ],
    ids=["columns", "followed by", "streams"],
)
def test_a_chain_takes_time_in_proportion_to_its_length(text: str, message: str) -> None:
    cep = Workbench()
    cep.run("create schema E(x int, k string)")
    began = time.process_time()
    if message:
        with pytest.raises(CepbookError, match=message):
            cep.run(text)
    else:
        cep.run(text)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("form", [None, [], {}, ["csv"], {"csv": 1}, 7, "exe"])
def test_a_malformed_download_request_is_none(form: object) -> None:
    assert DownloadRequest.of({"id": 1, "form": form}) is None
    assert DownloadRequest.of({"id": 1, "form": "csv"}) is not None
