"""Errors and help as a cell is typed: what the editor is told over the comm."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.magics import COMMANDS
from cepbook.magics.editor.lint import answer_request
from cepbook.magics.shell.host import NotebookHost
from tests.magics.conftest import Notebook

SCHEMA = "%%epl\ncreate schema Tick(symbol string, price double)"


def asked(notebook: Notebook, text: str, cell: str | None = None, **more: Any) -> Any:
    return answer_request(
        NotebookHost(notebook.shell, COMMANDS), {"id": 7, "kind": "lint", "text": text, "cell": cell, **more}
    )["found"]


def marked(notebook: Notebook, text: str, cell: str | None = None, **more: Any) -> list[tuple[str, str, str | None]]:
    """The text below each mark, the message, the hint."""
    units = text.encode("utf-16-le")
    found = asked(notebook, text, cell, **more) or ()
    return [(units[2 * f["from"] : 2 * f["to"]].decode("utf-16-le"), f["message"], f["hint"]) for f in found]


def test_names_and_places(notebook: Notebook) -> None:
    notebook.run(SCHEMA)
    text = "%%epl\nselect symbl from Tick"
    assert marked(notebook, text) == [("symbl", "no property `symbl` in `Tick`", "did you mean `symbol`?")]
    assert marked(notebook, "%%epl\nselect symbol frm Tick")[0][0] == "Tick"
    assert marked(notebook, "%%epl\nselect symbol from Tick") == []
    assert not notebook.cep.runtime.statements, "nothing was deployed"


def test_characters_of_two_units(notebook: Notebook) -> None:
    notebook.run(SCHEMA)
    assert marked(notebook, "%%epl\n// \U0001f600\nselect '\U0001f600', prise from Tick")[0][0] == "prise"


def test_a_cell_may_say_again_what_it_said(notebook: Notebook) -> None:
    cell = SCHEMA + ";\n@name('q') select * from Tick"
    notebook.run(cell, cell_id="one")
    assert marked(notebook, cell, "one") == []
    assert marked(notebook, cell.replace("price", "cost"), "one") == []
    taken = marked(notebook, "%%epl\n@name('q') select * from Tick; @name('r') select 1 as x from Tick", "two")
    assert [(text, message.partition(":")[0]) for text, message, _ in taken] == [
        ("%%epl", "these names were deployed by other cells")
    ]


def test_python_values_options_and_other_magics(notebook: Notebook) -> None:
    notebook.run(SCHEMA)
    text = "%%epl\nselect * from Tick(price > :least)"
    assert marked(notebook, text)[0][0] == ":least"
    notebook.run("least = 3.0")
    assert marked(notebook, text) == []
    assert marked(notebook, "%%epl --nosuch\nselect * from Tick")[0][0] == " --nosuch"
    assert marked(notebook, "%%query\nselect * frm Tick")[0][0] == "frm"
    assert marked(notebook, "%%apama out\nfrom t in all Tick() selec t")[0][0] == "selec"
    assert marked(notebook, "x = (") == marked(notebook, "%%epl\n") == marked(notebook, "%%events\n") == []


EVENTS = """t = "2024-01-01 08:00:00.000"
Tick = {symbol = 'A', price = 1.0}
t = t.plus(1 hour)
query select * from q
"""


@pytest.mark.parametrize("magic", ["events", "scenario"])
@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("Tik = {price = 1.0}", "Tik", "there is no event type `Tik`"),
        ("Tick = {prise = 1.0}", "prise", "event type `Tick` has no property `prise`"),
        ("Tick = {price = 'x'}", "price", "property `price` of event type `Tick`"),
        ("Tick = {price = 1.0", "0", "the closing brace is missing"),
        ("Tick price=x", "Tick price=x", ""),
        ("Tick = {}\n    nosuch + price=1.0", "nosuch", "there is no statement `nosuch`"),
        ('t = "2023-01-01 08:00:00.000"', 't = "2023-01-01 08:00:00.000"', "is before the clock"),
        ("t = t.plus(1 our)", "1 our", "is no time period"),
        ("iterate nosuch", "iterate nosuch", "there is no statement `nosuch`"),
        ("set least = 'x'", "set least = 'x'", ""),
        ("query select symbl frm q", "q", ""),
    ],
)
def test_cells_of_events(notebook: Notebook, magic: str, line: str, wrong: str, message: str) -> None:
    notebook.run(SCHEMA + ";\n@name('q') select * from Tick#keepall; create variable double least = 1")
    head = f"%%{magic} --only q\n"
    assert marked(notebook, f"{head}{EVENTS}") == []
    (found,) = marked(notebook, f"{head}{EVENTS}// \U0001f600\n{line}\n")
    assert found[0] == wrong and message in found[1]


def test_all_mistakes_of_a_cell_of_events_at_once(notebook: Notebook) -> None:
    notebook.run(SCHEMA)
    found = marked(notebook, "%%events\nTick = {prise = 1.0}\nt = t.plus(1 our)\nTik = {}")
    assert [text for text, _, _ in found] == ["prise", "1 our", "Tik"]


def test_a_cell_of_events_that_has_run_is_not_wrong(notebook: Notebook) -> None:
    """Its times lie in the past then; and nothing is sent, and no query answered, for looking at it."""
    notebook.run(SCHEMA + ";\ncreate window W#keepall as Tick; @name('q') select * from Tick")
    cell = f"%%events\n{EVENTS}query delete from W\n"
    notebook.run(cell.replace("query delete from W\n", ""))
    counts, clock = dict(notebook.cep.event_counts()), notebook.cep.clock
    assert marked(notebook, cell) == []
    assert (dict(notebook.cep.event_counts()), notebook.cep.clock) == (counts, clock)


def test_what_a_cell_expects(notebook: Notebook) -> None:
    notebook.run(SCHEMA + ";\n@name('quotes') select * from Tick")
    assert marked(notebook, "%%expect\n// of all\nquotes + price=1.0") == []
    assert marked(notebook, "%%expect\nquotes + price=1.0\nquotes (none)") == [
        (
            "quotes (none)",
            "`quotes` delivers nothing here, and a row at the same time",
            "keep one of them, or write `@TIME` above each",
        )
    ]
    assert marked(notebook, "%%expect\n// nothing yet") == []
    assert marked(notebook, "%%expect\nquots (none)") == [
        ("quots (none)", "there is no statement `quots`", "did you mean `quotes`?")
    ]
    assert marked(notebook, "%%expect\nTick = {}")[0][0] == "Tick = {}"
    assert marked(notebook, "%%events --only nosuch\nTick = {}")[0][0] == " --only nosuch"


def test_a_file_is_a_module_of_its_own(notebook: Notebook) -> None:
    notebook.run(SCHEMA)
    alone = {"alone": True}
    assert marked(notebook, "select prise from Tick", **alone) == [], "its types may come from files"
    own = "create schema Tick(price double);\nselect prise from Tick"
    assert marked(notebook, own, **alone)[0][0] == "prise"
    assert marked(notebook, "select prise frm Tick", **alone)[0][0] == "Tick"


@pytest.mark.parametrize(("word", "told"), [("length", "length("), ("avg", "avg("), ("Tick", "event type Tick")])
def test_help_for_the_word_under_the_pointer(notebook: Notebook, word: str, told: str) -> None:
    notebook.run(SCHEMA)
    text = "select avg(price) from Tick#length(5)"
    for head, alone in (("%%epl\n// \U0001f600\n", False), ("// \U0001f600\n", True)):
        at = len((head + text[: text.index(word) + 1]).encode("utf-16-le")) // 2
        found = asked(notebook, head + text, kind="hover", at=at, alone=alone)
        assert found is not None and told in found


def test_without_a_workbench_nothing_is_known(notebook: Notebook) -> None:
    notebook.run("del cep")
    assert marked(notebook, "%%epl\nselect 1") == []
    assert asked(notebook, "%%epl\nselect 1", kind="hover", at=8) is None


def test_the_comm_answers_until_the_extension_goes(bare: Any) -> None:
    targets: dict[str, Any] = {}

    class Manager:
        def register_target(self, name: str, opened: Any) -> None:
            targets[name] = opened

        def unregister_target(self, name: str, opened: Any) -> None:
            assert targets.pop(name) is opened

    class Comm:
        def __init__(self) -> None:
            self.sent: list[Any] = []

        def on_msg(self, callback: Any) -> None:
            self.ask = callback

        def send(self, data: Any) -> None:
            self.sent.append(data)

    bare.kernel = type("Kernel", (), {"comm_manager": Manager(), "do_inspect": lambda *_: None})()
    bare.run_line_magic("load_ext", "cepbook")
    comm = Comm()
    targets["cepbook.lint"](comm, {})
    comm.ask({"content": {"data": {"id": 3, "text": "%%epl\nselect", "cell": None}}})
    assert comm.sent[0]["id"] == 3 and comm.sent[0]["found"][0]["message"]
    bare.run_line_magic("unload_ext", "cepbook")
    assert targets == {}


def test_cells_and_files_are_laid_out_anew(notebook: Notebook) -> None:
    cell = (
        "%%epl --quiet\nselect   symbol,price from Tick(price>3) where   symbol = 'x' and price < 100 group by symbol"
    )
    found = asked(notebook, cell, kind="format")["text"]
    assert found.startswith("%%epl --quiet\nselect symbol, price\nfrom Tick(price > 3)\n")
    assert asked(notebook, found, kind="format") == {"text": found}
    assert asked(notebook, "select   1  as x from Tick", kind="format", alone=True) == {
        "text": "select 1 as x from Tick\n"
    }
    problem = asked(notebook, "%%epl\n\nselect frm Tick frm", kind="format")["problem"]
    assert "cell:3:" in problem and "^" in problem
    for other in ("x = 1", "%%events\nTick = {}"):
        assert "only EPL is formatted" in asked(notebook, other, kind="format")["problem"]


def test_files_are_completed_with_the_names_of_the_kernel(notebook: Notebook) -> None:
    notebook.run(SCHEMA)
    text = "select '\U0001f600', pri from Tick"
    found = asked(notebook, text, kind="complete", alone=True, at=len("select '..', pri"))
    assert found["typed"] == 3 and ("price", "property") in found["items"]
    nothing = asked(notebook, "select qqq", kind="complete", alone=True, at=10)
    assert nothing == {"typed": 0, "items": []}


def test_a_frame_in_the_place_of_a_stream(notebook: Notebook) -> None:
    notebook.run("import pandas as pd\ntrips = pd.DataFrame({'started': pd.to_datetime(['2024-05-06'])})")
    hint = '`trips` is a DataFrame: cep.define("trips", trips, time="started") makes an event type of it'
    assert marked(notebook, "%%epl\nselect * from trips") == [("trips", "no event type `trips`", hint)]


def test_readings_that_are_rarely_meant_are_warnings(notebook: Notebook) -> None:
    """They appear when nothing else is wrong, and only as warnings."""
    notebook.run(SCHEMA)
    text = "%%epl\nselect * from Tick where symbol = null"
    (found,) = asked(notebook, text)
    assert found["severity"] == "warning" and found["hint"] == "write `symbol is null`"
    assert text[found["from"] : found["to"]] == "symbol = null"
    (found,) = asked(notebook, "%%epl\nselect symbl from Tick where symbol = null")
    assert found["severity"] == "error"
    assert marked(notebook, "create schema T(x int);\nselect * from T where x != null", alone=True)[0][0] == "x != null"
