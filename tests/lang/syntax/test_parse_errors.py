"""What a user sees for typical mistakes: the texts in ``parse_errors.md``; ``--record`` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.errors import MOST_PROBLEMS, ParseError
from cepbook.lang.syntax.reader.parser import parse_epl
from tests.lang import recorded

FILE = Path(__file__).with_name("parse_errors.md")


def refusal(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse_epl(text)
    return caught.value


@pytest.mark.parametrize(("epl", "error"), recorded.cases(FILE), ids=lambda text: text.splitlines()[0][:60])
def test_recorded_text(epl: str, error: str, request: pytest.FixtureRequest) -> None:
    recorded.check(FILE, epl, error, refusal(epl.rstrip()), request)


def test_every_statement_reports_its_first_error() -> None:
    text = "selct a from A;\nselect b from B;\nselect c, from C; select 'd from D;\nselect e from"
    diagnostics = refusal(text).diagnostics
    assert [d.code for d in diagnostics] == ["syntax"] * 4
    assert [d.span.line_column(text) for d in diagnostics] == [(1, 1), (3, 11), (3, 26), (4, 14)]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("select § from A;" * 150, "select"),  # the statement behind the 100th problem
        ("select * from A; " + "select § from A;" * 100 + "select x from A", "select x from"),
        ("select " + "§ " * 150 + "from A; select * from B", "§"),  # the 101st sign
        ("select , from A;" * 40 + "select § from A;" * 150, "select"),
    ],
)
def test_most_problems_of_a_text(text: str, end: str) -> None:
    *problems, last = refusal(text).diagnostics
    assert len(problems) == MOST_PROBLEMS
    assert last.code == "unchecked" and last.span.start > problems[-1].span.start
    assert text[last.span.start :].startswith(end)


def test_end_of_statement_is_behind_its_last_token() -> None:
    text = "select a from  /* nothing */ ; select b from B"
    (diagnostic,) = refusal(text).diagnostics
    assert (diagnostic.span.start, diagnostic.span.end) == (13, 13)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("select x from A where x == 1", "single ="),
        ("select x from A where x !== 1", "!="),
        ("select order from A", "backticks: `order`"),
        ("select rstream irstream x from A", "only one of istream, rstream and irstream"),
        ("select istream, rstream x from A", "only one of istream, rstream and irstream"),
        ("insert istream rstream into B select x from A", "only one of istream, rstream and irstream"),
        ("select * from A#time(5 hourz)", "did you mean hours?"),
        ("select * from A#length(5", "close the bracket ( after length"),
        ("selct x from A", "did you mean select?"),
        ("select x from A order by x where x > 1", "put where before order by"),
    ],
)
def test_hints_name_the_remedy(text: str, hint: str) -> None:
    (diagnostic,) = refusal(text).diagnostics
    assert diagnostic.hint is not None and hint in diagnostic.hint
