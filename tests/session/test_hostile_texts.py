"""Texts of extreme size or depth: refused with a diagnostic, soon, in every language; and malformed requests."""

from __future__ import annotations

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


@pytest.mark.parametrize("form", [None, [], {}, ["csv"], {"csv": 1}, 7, "exe"])
def test_a_malformed_download_request_is_none(form: object) -> None:
    assert DownloadRequest.of({"id": 1, "form": form}) is None
    assert DownloadRequest.of({"id": 1, "form": "csv"}) is not None
