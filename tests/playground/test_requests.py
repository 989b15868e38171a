"""The Python side of the playground: requests and their answers, without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cepbook.playground.requests import Playground
from cepbook.testing import scenario
from cepbook.testing.engines import ENGINES
from cepbook.testing.runner import Outcome, run

WARM_UP = Path(__file__).resolve().parents[2] / "docs" / "playground" / "warm_up.json"
MODULE = """\
create schema Payment(customer string, status string, amount double);

@name('trouble')
select customer, count(*) as failures
from Payment(status = 'failed')#time(10 min)
group by customer
having count(*) >= 2;
"""
ISTREAM = "@name('rows') select current_timestamp as at, symbol, price from MyTicks;"
SCENARIO = """\
t = "2024-03-01 09:00:00"
Payment customer="anna" status="failed" amount=10.0
Payment customer="ben" status="failed" amount=12.0
t = t.plus(4 min)
Payment = {customer = 'anna', status = 'failed', amount = 30}
    trouble + customer="anna" failures=2
t = t.plus(10 min)
"""


def ask(playground: Playground, kind: str, **request: Any) -> Any:
    return json.loads(playground.answer(json.dumps({"kind": kind, **request})))


@pytest.fixture
def ran() -> Playground:
    playground = Playground()
    answer = ask(playground, "run", module=MODULE, scenario=SCENARIO)
    assert answer["problems"] == []
    return playground


def test_a_run_has_reactions_and_states_of_every_step() -> None:
    answer = ask(Playground(), "run", module=MODULE, scenario=SCENARIO)
    assert answer["statements"] == ["trouble"]
    assert [step["now"] for step in answer["steps"]][:4] == ["2024-03-01 09:00:00"] * 3 + ["2024-03-01 09:04:00"]
    assert all(step["agrees"] for step in answer["steps"])
    (reaction,) = answer["steps"][4]["reactions"]
    assert reaction["rows"] == [{"sign": "+", "cells": [["customer", "anna"], ["failures", "2"]]}]
    totals = [answer["states"][step["state"]]["retained"][0]["total"] for step in answer["steps"]]
    assert totals == [0, 1, 2, 2, 3, 0]


def test_another_reaction_than_expected_is_marked() -> None:
    answer = ask(Playground(), "run", module=MODULE, scenario=SCENARIO.replace("failures=2", "failures=3"))
    assert [step["agrees"] for step in answer["steps"]] == [True, True, True, True, False, True]


def test_without_expectations_nothing_is_compared() -> None:
    answer = ask(Playground(), "run", module=MODULE, scenario='Payment customer="anna" status="failed" amount=10.0')
    assert [step["agrees"] for step in answer["steps"]] == [None]


def test_a_problem_has_its_place_in_the_whole_module() -> None:
    module = f"{MODULE}%%apama smooth\nfrom p in all Payment() retain 2 select mean(p.amnt)\n"
    (problem,) = ask(Playground(), "run", module=module, scenario=SCENARIO)["problems"]
    assert module[problem["from"] : problem["to"]] == "amnt"
    assert problem["hint"] == "did you mean `amount`?"
    assert "^^^^" in problem["text"]


def test_a_problem_of_the_scenario_has_its_place() -> None:
    wrong = 'Payment customer="anna"\n    trouble ++ customer="anna"\n'
    problems = ask(Playground(), "run", module=MODULE, scenario=wrong)["problems"]
    assert [problem["in"] for problem in problems] == ["scenario"]


def test_a_cell_of_an_unknown_language_is_a_problem() -> None:
    (problem,) = ask(Playground(), "lint", module="%%apma q\nselect")["problems"]
    assert problem["hint"] == "did you mean `%%apama`?"


def test_why_names_the_events_of_a_row(ran: Playground) -> None:
    page = ask(ran, "why", statement="trouble", delivery=0, row=0)["page"]
    assert page["title"] == "why trouble delivered + at 2024-03-01 09:04:00"
    assert page["parts"][1]["title"] == "provenance: 2 events"


def test_the_fate_of_an_event_names_the_condition_that_it_failed(ran: Playground) -> None:
    page = ask(ran, "fate", event=1)["page"]
    assert page["parts"][1]["title"] == "trouble: kept"
    assert page["parts"][1]["cells"][-1][:3] == ["having", "no", "count(*) >= 2"]


def test_a_marble_diagram_has_stays_and_deliveries(ran: Playground) -> None:
    diagram = ask(ran, "marble", statement="trouble")
    assert [bar["label"] for bar in diagram["bars"]] == ["anna 10.0", "ben 12.0", "anna 30.0"]
    assert [delivery["insert"] for delivery in diagram["deliveries"]] == [["customer=anna, failures=2"]]


def test_questions_about_what_is_not_there_are_answered_with_an_error() -> None:
    assert "delivered nothing" in ask(Playground(), "why", statement="x", delivery=0, row=0)["error"]
    assert "nothing ran" in ask(Playground(), "fate", event=0)["error"]
    assert "not deployed" in ask(Playground(), "marble", statement="x")["error"]


def completed(playground: Playground, text: str, place: str = "module") -> list[str]:
    """The offers at the bar in a text."""
    before, _, after = text.partition("|")
    answer = ask(playground, "complete", text=before + after, at=len(before), **{"in": place})
    return [name for name, _ in answer["items"]]


def test_names_of_the_module_are_completed(ran: Playground) -> None:
    assert completed(ran, "select cust| from Payment") == ["customer"]
    assert "time_batch" in completed(ran, "select * from Payment#time|")
    assert completed(ran, "select 1 from E;\n%%apama q\nfrom p in all Paym|") == ["Payment"]
    assert completed(ran, "Payment st|", "scenario") == ["status="]


def test_help_explains_words(ran: Playground) -> None:
    module = "select avg(amount) from Payment#time(1 min)"
    for word, text in (("avg", "aggregation function"), ("Payment", "event type Payment"), ("time", "#time(")):
        help_text = ask(ran, "hover", text=module, at=module.index(word) + 1, **{"in": "module"})["text"]
        assert text in help_text


def test_the_module_is_formatted_cell_by_cell(ran: Playground) -> None:
    module = "select  1 as x from E where x>1\n%%apama q\nfrom  p in all E() select p\n"
    text = ask(ran, "format", module=module)["text"]
    assert text == "select 1 as x from E where x > 1\n\n%%apama q\nfrom  p in all E() select p\n"


def test_a_notebook_has_the_cells(ran: Playground) -> None:
    notebook = json.loads(ask(ran, "notebook", module=MODULE + "%%apama q\nx\n", scenario=SCENARIO)["text"])
    heads = ["".join(cell["source"]).partition("\n")[0] for cell in notebook["cells"]]
    assert heads == ["%load_ext cepbook", "%%epl", "%%apama q", "%%scenario"]


def test_a_scenario_file_passes_as_a_test(ran: Playground, tmp_path: Path) -> None:
    file = tmp_path / "trouble.md"
    file.write_text(ask(ran, "test", module=MODULE, scenario=SCENARIO)["text"], encoding="utf-8")
    (case,) = scenario.read(file).cases
    assert run(case, ENGINES["rows"]).outcome is Outcome.PASSED


def test_a_csv_file_becomes_events_in_order_of_time() -> None:
    text = "time,symbol,price,open\n2024-01-01 09:00,A,1.5,true\n2024-01-01 08:59,B,,false\n"
    playground = Playground()
    answer = ask(playground, "csv", text=text, name="my ticks.csv")
    assert answer["module"].startswith("create schema MyTicks(time long, symbol string, price double, open boolean);")
    assert answer["events"] == 2
    (statement,) = ask(playground, "replay", module=answer["module"] + ISTREAM)["statements"][1:]
    assert statement["table"]["cells"] == [["2024-01-01 09:00:00", "A", "1.5"], ["2024-01-01 08:59:00", "B", "null"]]
    assert statement["total"] == 2


def test_a_curve_keeps_its_peaks() -> None:
    playground = Playground()
    rows = "\n".join(str(1000.5 if number == 7_777 else number % 10 + 0.5) for number in range(20_000))
    answer = ask(playground, "csv", text=f"x\n{rows}\n", name="peaks.csv")
    (statement,) = ask(playground, "replay", module=f"create schema {answer['type']}(x double); select x from Peaks;")[
        "statements"
    ]
    assert len(statement["curve"]) <= 800
    assert max(statement["curve"]) == 1000.5
    assert statement["total"] == 20_000


def test_a_file_without_rows_is_refused() -> None:
    assert "no rows" in ask(Playground(), "csv", text="a,b\n", name="x.csv")["error"]


def test_the_warm_up_of_the_page_asks_everything() -> None:
    playground = Playground()
    requests = json.loads(WARM_UP.read_text(encoding="utf-8"))
    answers = [(request["kind"], ask(playground, **request)) for request in requests]
    assert [(kind, answer["error"]) for kind, answer in answers if "error" in answer] == []
    assert {kind for kind, _ in answers} == set(playground.kinds)
