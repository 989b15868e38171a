"""What a user sees for wrong names, types and combinations: ``bind_errors.md``; ``--record`` writes the texts anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cepbook.errors import BindError
from cepbook.lang.bind import bind
from cepbook.lang.syntax.reader.parser import parse_epl
from tests.lang import recorded
from tests.lang.binding import CATALOG, SCHEMAS, bound

FILE = Path(__file__).with_name("bind_errors.md")
CORPUS = Path(__file__).parents[2] / "corpus"
SOURCES = Path(__file__).parents[3] / "cepbook" / "lang" / "bind"


def refusal(text: str) -> BindError:
    with pytest.raises(BindError) as caught:
        bound(text)
    return caught.value


@pytest.mark.parametrize(("epl", "error"), recorded.cases(FILE), ids=lambda text: text.splitlines()[0][:60])
def test_recorded_text(epl: str, error: str, request: pytest.FixtureRequest) -> None:
    recorded.check(FILE, epl, error, refusal(epl.rstrip()), request)


def test_the_schemas_shown_are_those_used() -> None:
    assert SCHEMAS.strip() in FILE.read_text(encoding="utf-8")


def test_every_code_is_recorded() -> None:
    used = set()
    for file in SOURCES.rglob("*.py"):
        used.update(re.findall(r"(?:add|fail|report)\(\s*\"([a-z]+(?:-[a-z]+)+)\"", file.read_text(encoding="utf-8")))
    files = [FILE, *(CORPUS / "streamcruncher").glob("*.md"), *(CORPUS / "apama").glob("*.md")]
    shown = {code for file in files for code in re.findall(r"```error\n([a-z-]+):", file.read_text(encoding="utf-8"))}
    assert used <= shown | {"not-supported-yet"}
    assert "not-supported-yet" in shown


def test_a_genuine_error_is_reported_beside_what_is_not_supported() -> None:
    epl = "select prise from sql:db ['select 1'] as a, Alert#keepall as b where b.symbl = 'x'"
    codes = [d.code for d in refusal(epl).diagnostics]
    assert codes == ["not-supported-yet", "unknown-property"]


def test_what_follows_from_an_error_is_not_reported() -> None:
    epl = (
        "insert into X select prise * 2 + 1 as p from Tick; select p + 1, sum(p) from X where p > 5 and p || 'a' = 'b'"
    )
    assert [d.message for d in refusal(epl).diagnostics] == ["no property `prise` in `Tick`"]


def test_what_a_refused_statement_declares_is_not_missed() -> None:
    epl = (
        "create schema Made as own.pack.Class; select a, b + 1 as c from Made where a > 1;"
        " insert into Made select symbol as a from Tick; insert into Out select a from Made; select a from Out"
    )
    assert {d.code for d in refusal(epl).diagnostics} == {"not-supported-yet"}


@pytest.mark.parametrize(
    ("clause", "what"),
    [
        ("select * from sql:db ['select 1']", "sql streams"),
        ("select * from Tick#size#uni(size)", "a derived-value window after another one"),
        ("@Hint('reclaim_group_aged=1') select * from Tick#groupwin(symbol)#size", "reclaim_group hints"),
        ("select sum(prev(1, price)) from Tick#length(2)", "prev, prior and istream in an aggregate"),
        ("select new Tick(symbol) from Tick", "`new Tick(…)`"),
        ("create expression double js:f(x) [ return x; ]", "scripts"),
        ("create schema X as own.pack.Class", "event types from classes"),
    ],
)
def test_not_supported_yet(clause: str, what: str) -> None:
    messages = [d.message for d in refusal(clause).diagnostics if d.code == "not-supported-yet"]
    assert any(m.startswith(f"not supported yet: {what}") for m in messages), messages


@pytest.mark.parametrize(
    "epl", ["create schema Tick2(a int); select b from Tick2", "select * from Tick; select x from Tick"]
)
def test_a_failed_module_leaves_no_trace(epl: str) -> None:
    before = set(CATALOG.event_types)
    with pytest.raises(BindError):
        bind(parse_epl(epl), CATALOG, epl)
    assert set(CATALOG.event_types) == before
