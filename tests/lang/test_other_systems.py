"""What people of SQL, Flink, ksql, pandas, Siddhi and Drools type: it runs, or one hint leads to a line that runs.

`other_systems.tsv` has the system, the text, the hint that was recorded (empty where the text runs) and a line that
follows the hint. ``--record`` writes the hints anew. A hint that says "write `x`" or "did you mean `x`?" has `x` in the
line. Statements of other places (``%epl drop X``) have no line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cepbook import Workbench
from cepbook.errors import CompileError

FILE = Path(__file__).with_suffix("").parent / "other_systems.tsv"
SCHEMA = """create schema Tick(ts long, at timestamp, upto timestamp, symbol string, price double, volume int);
create schema Quote(symbol string, bid double);
create schema J(`user.name` string, `PM2.5` double, `select` int, `order id` string, `Sensor ID` string);
create window W#keepall as Quote"""
ELSEWHERE = {"drop table X", "insert into Tick values (1)", "insert into Tick(symbol) values ('A')"}
ROWS = [line.split("\t") for line in FILE.read_text("utf-8").splitlines()[1:]]


def hint_of(text: str) -> str:
    """The hint of the first problem; empty if the text runs."""
    cep = Workbench()
    cep.run(SCHEMA)
    try:
        cep.run(text, parameters={"limit": 1.0})
    except CompileError as error:
        assert error.diagnostics[0].hint is not None, f"no hint: {error}"
        return error.diagnostics[0].hint
    return ""


def test_there_are_three_hundred() -> None:
    assert len({text for _, text, _, _ in ROWS}) == len(ROWS) >= 300
    assert {system for system, *_ in ROWS} == {"SQL", "Flink", "ksql", "pandas", "Siddhi", "Drools"}


@pytest.mark.parametrize(("number", "text", "hint", "line"), [(i, *row[1:]) for i, row in enumerate(ROWS)])
def test_it_runs_or_leads_to_what_runs(
    number: int, text: str, hint: str, line: str, request: pytest.FixtureRequest
) -> None:
    found = hint_of(text)
    if found != hint and request.config.getoption("--record", default=False):
        rows = FILE.read_text("utf-8").splitlines()
        system, text, _, line = rows[number + 1].split("\t")
        rows[number + 1] = f"{system}\t{text}\t{found}\t{line}"
        FILE.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return
    assert found == hint
    if not hint:
        assert not line
    elif text not in ELSEWHERE:
        assert hint_of(line) == "", line
        meant = re.search(r"(?:write|mean) `([^`…]+)`(?:\?|$)", hint)
        assert meant is None or meant[1].replace(" ", "") in line.replace(" ", "")
