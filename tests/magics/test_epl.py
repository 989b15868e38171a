"""``%%epl`` and ``%epl``: cells replace themselves, mistakes change nothing, in any order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cepbook.errors import BindError, CepbookError, ParseError, UsageError
from cepbook.magics.extension import SparkProgress
from cepbook.session import Workbench
from tests.magics.conftest import TRADES, Notebook

BIG = "%%epl\n@name('big') select * from Trade(volume > 100)"


def test_a_cell_shows_what_it_deployed(notebook: Notebook) -> None:
    shown = notebook.run(TRADES)
    assert shown.startswith("deployed ") and "all" in shown
    assert (
        notebook.deployed() == {"statements": ["all"], "types": ["Trade"]} or "all" in notebook.deployed()["statements"]
    )
    assert notebook.run("%%epl --quiet\n@name('q') select * from Trade") == ""


@pytest.mark.parametrize("cell_id", [None, "f3c1"])
def test_running_a_cell_again_replaces_what_it_deployed(trades: Notebook, cell_id: str | None) -> None:
    trades.run(BIG, cell_id)
    before = trades.deployed()
    for _ in range(3):
        assert trades.run(BIG, cell_id).startswith("replaced ")
    assert trades.deployed() == before


def test_with_a_cell_id_an_edited_cell_replaces_even_under_other_names(trades: Notebook) -> None:
    trades.run(BIG, "c1")
    trades.run(BIG.replace("'big'", "'huge'"), "c1")
    assert "huge" in trades.deployed()["statements"] and "big" not in trades.deployed()["statements"]


def test_an_error_in_the_text_of_another_cell_is_not_shown_as_one_of_this_cell(trades: Notebook) -> None:
    trades.run("%%epl\n@name('dear') select symbol from Trade(price > 100)", "second")
    found = trades.error("%%epl\ncreate schema Trade(symbol string);\n@name('all') select * from Trade")
    assert " --> dear:1:40" in found and "cell:" not in found
    assert "hint: keep what it needs, or drop it first" in found


def test_without_a_cell_id_the_names_tell_which_cell_it_is(trades: Notebook) -> None:
    trades.run(BIG)
    trades.run(BIG.replace("100", "200"))
    trades.run("%%epl\n@name('other') select * from Trade")
    assert {"big", "other"} <= set(trades.deployed()["statements"])


def test_cells_without_names_are_known_by_their_text(trades: Notebook) -> None:
    trades.run("%%epl\nselect symbol from Trade")
    count = len(trades.deployed()["statements"])
    trades.run("%%epl\nselect   symbol\nfrom Trade")
    assert len(trades.deployed()["statements"]) == count
    trades.run("%%epl\nselect price from Trade")
    assert len(trades.deployed()["statements"]) == count + 1


def test_a_cell_that_joins_two_earlier_ones_asks(trades: Notebook) -> None:
    trades.run(BIG)
    trades.run("%%epl\n@name('small') select * from Trade(volume < 10)")
    before = trades.deployed()
    message = trades.error(BIG + ";\n@name('small') select * from Trade(volume < 10)")
    assert "`big`" in message and "`small`" in message
    assert trades.deployed() == before


def test_a_named_cell(trades: Notebook) -> None:
    trades.run(BIG.replace("%%epl", "%%epl --name alerts"), "id-1")
    trades.run("%%epl --name alerts\n@name('changed') select * from Trade", "id-2")
    assert "big" not in trades.deployed()["statements"] and "changed" in trades.deployed()["statements"]


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("%%epl\nselect symbol form Trade", ParseError),
        ("%%epl\n@name('mine') select nothing from Trade", BindError),
        ("%%epl\n@name('x') select * from Trad", BindError),
        ("%%epl\n@name('ok') select * from Trade; @name('bad') select * from Nowhere", BindError),
    ],
)
@pytest.mark.parametrize("cell_id", [None, "c9"])
def test_a_mistake_changes_nothing(trades: Notebook, cell: str, kind: type[CepbookError], cell_id: str | None) -> None:
    before = trades.deployed()
    result, _ = trades.try_run(cell, cell_id)
    assert isinstance(result.error_in_exec, kind), result
    assert trades.deployed() == before


def test_a_failed_new_version_keeps_the_old_one(trades: Notebook) -> None:
    trades.run(BIG, "c1")
    trades.error("%%epl\n@name('big') select * from Nowhere", "c1")
    assert "big" in trades.deployed()["statements"]
    assert trades.run(BIG, "c1").startswith("replaced ")


def test_an_error_has_a_caret_and_no_python_traceback(trades: Notebook) -> None:
    result, _ = trades.try_run("%%epl\nselect *\nfrom Nowhere")
    error = result.error_in_exec
    assert isinstance(error, BindError)
    shown = "\n".join(error._render_traceback_())
    assert "from Nowhere" in shown and "^^^^^^^" in shown and "Traceback" not in shown
    assert "--> cell:3:6" in shown and "3 | from Nowhere" in shown  # as the notebook numbers its lines


def test_dropping_and_running_in_any_order(trades: Notebook) -> None:
    trades.run(BIG)
    assert trades.run("%epl drop big") == "dropped big"
    assert "big" not in trades.deployed()["statements"]
    assert "big" in trades.error("%epl drop big")
    assert trades.run(BIG).startswith("deployed ")
    trades.run("%epl drop big all")
    trades.run(TRADES)
    trades.run(BIG)
    assert {"all", "big"} <= set(trades.deployed()["statements"])


def test_reset(trades: Notebook) -> None:
    trades.run("%clock 5000")
    trades.run("%epl reset")
    assert trades.deployed() == {"statements": [], "types": []}
    assert trades.run("%epl list") == "no statements\n%epl help says how to begin"
    assert trades.run(TRADES).startswith("deployed ")


def test_rewind(trades: Notebook) -> None:
    trades.run('%%events\n@1000\nTrade symbol="A"')
    assert trades.run("%epl rewind") == "all statements are in their first state; the clock is at its start"
    assert trades.cep.clock.ms == 0 and trades.cep.changes("all").empty
    assert trades.run('%%events\nTrade symbol="B"').splitlines()[-1].split()[-3:] == ["B", "null", "null"]
    assert "takes no argument" in trades.error("%epl rewind now")


def test_save_and_load(trades: Notebook, tmp_path: Path) -> None:
    trades.run('%%events\n@1000\nTrade symbol="A" price=1.5')
    file = tmp_path / "trades of today.cep"
    assert trades.run(f"%epl save '{file}'").startswith("saved 1 statement at ")
    trades.run("%epl reset")
    assert trades.run(f"%epl load '{file}'").startswith("loaded Trade, all; the clock is at ")
    assert trades.cep.clock.ms == 1000 and trades.deployed()["statements"] == ["all"]
    assert trades.cep.changes("all").empty
    trades.run(f"%epl save --feeds '{file}'")
    file.write_bytes(file.read_bytes()[:-1])
    assert "damaged" in trades.error(f"%epl load '{file}'")
    assert "cannot be read: No such file" in trades.error("%epl load nowhere.cep")
    assert "file" in trades.error("%epl save")
    file.write_text("mine")
    assert trades.error(f"%epl save '{file}'") == (
        f"`{file}` is there already and is no saved workbench\n"
        "  hint: give another name; `replace=True`, or `%epl save --replace`, replaces it"
    )
    assert file.read_text() == "mine"
    assert trades.run(f"%epl save --replace '{file}'").startswith("saved 1 statement at ")


def test_marble_with_rows(trades: Notebook) -> None:
    trades.run("%%epl\n@name('two') select irstream symbol, price from Trade#length_batch(2)")
    trades.run("%%epl\n@name('one') select * from Trade#time_batch(1 sec, 'START_EAGER')")
    assert trades.run("%epl marble two --rows").splitlines()[1:] == ["nothing was delivered"]
    for price in (1.0, 2.5, 3.0, 4.0):
        trades.cep.send("Trade", symbol="A", price=price)
    trades.cep.advance(3_000, stepping=True)
    shown = trades.run("%epl marble two --rows")
    assert "marble diagram" in shown
    assert [re.split("  +", line) for line in shown.splitlines()[1:]] == [
        ["", "time", "insert stream: symbol, price", "remove stream: symbol, price"],
        ["", "00:00:00.000", "A 1.0 · A 2.5"],
        ["", "00:00:00.000", "A 3.0 · A 4.0", "A 1.0 · A 2.5"],
    ]
    batch = trades.run("%epl marble one --rows").splitlines()
    assert batch[-1] == "  00:00:03.000  (empty)"


def test_list_and_show(trades: Notebook) -> None:
    assert "all" in trades.run("%epl list") and "all" in trades.run("%epl")
    assert trades.run("%epl show all") == trades.run("%epl show epl all")
    for stage in ("ast", "plan", "rewritten", "steps", "python", "coverage"):
        assert trades.run(f"%epl show {stage} all").strip()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%epl lst", "unknown subcommand `lst`; did you mean `list`?"),
        ("%epl all", "`all` is a statement\n  hint: `%view all` shows it, `cep.to_frame('all')` are its rows"),
        ("%epl show plann all", "unknown stage `plann`; did you mean `plan`?"),
        ("%epl show all plan", "takes the stage first: `%epl show plan all`"),
        ("%epl show plan", "takes a stage"),
        ("%epl show plan al", "`al`"),
        ("%epl drop", "takes the names"),
        ("%epl drop nothing_like_it", "nothing_like_it"),
        ("%epl reset now", "takes no argument, not `now`"),
        ("%epl help windws", "unknown topic `windws`; did you mean `windows`?"),
        ("%epl show 'plan all", "no closing quotation"),
        ("%%epl --nmae x\nselect * from Trade", "unknown option `--nmae`; did you mean `--name`?"),
        ("%%epl --frames Trade=df\nselect * from Trade", "--frames needs `--on spark`"),
        ("%%epl --on spark\nselect * from Trade", "--frames is missing"),
        ("%%epl --on spark --frames df --time ts\nselect * from Trade", "name=value"),
        ("%%epl --on flink\nselect * from Trade", "--on"),
        ("%epl spark", "--frames is missing"),
        ("%%epl --from trades\nselect * from Trade", "--from needs `--on spark`"),
        ("%epl compare", "--frames is missing"),
        ("%epl compare --with no_such", "there is no variable `no_such`"),
        ("%epl compare --with x --frames Trade=df", "takes --with a variable, or --frames or --from"),
        ("%epl spark --frames Trade=no_such --time ts", "there is no variable `no_such`"),
    ],
)
def test_usage_errors(trades: Notebook, line: str, message: str) -> None:
    before = trades.deployed()
    assert message in trades.error(line)
    assert trades.deployed() == before


def test_help(notebook: Notebook) -> None:
    overview = notebook.run("%epl help")
    assert "%%events" in overview
    assert overview.index("cep.define") < overview.index("cep.replay") < overview.index("cep.changes")
    assert "#length(size)" in notebook.run("%epl help windows")
    assert "example: select * from Tick#length(5)" in notebook.run("%epl help length")
    assert "sum(volume)" in notebook.run("%epl help aggregates")
    assert "coalesce" in notebook.run("%epl help functions")
    assert "roundFloor" in notebook.run("%epl help methods")
    assert "datetime.set(field, value)" in notebook.run("%epl help set")
    assert "array.where(lambda)" in notebook.run("%epl help array.where")
    assert "%clock +10 sec" in notebook.run("%epl help clock")
    assert "%epl rewind" in overview and "empty windows, the clock at its start" in overview
    assert notebook.run("%epl help rewind").startswith("%epl rewind\n  Begin again with what is deployed")
    assert "did you mean `rewind`?" in notebook.error("%epl help rewnd")


def test_output_repeats_exactly(notebook: Notebook) -> None:
    first = notebook.run(TRADES)
    notebook.run("%epl reset")
    assert notebook.run(TRADES) == first


def test_on_spark_hands_over_frames_and_options(trades: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, ...]] = []

    def spark(self: Workbench, frames: object, **options: object) -> str:
        seen.append((frames, options))
        return "the run"

    monkeypatch.setattr(Workbench, "spark", spark)
    trades.shell.user_ns["df"] = frame = object()
    line = "%%epl --on spark --frames Trade=df --time Trade=ts,Quote=at --sequence n --until 5000 --into found"
    shown = trades.run(f"{line}\n@name('big') select * from Trade(volume > 100)")
    expected = {
        "time": {"Trade": "ts", "Quote": "at"},
        "sequence": "n",
        "statements": ["big"],
        "until": 5000,
        "leap": False,
    }
    assert seen == [({"Trade": frame}, expected)]
    assert trades.shell.user_ns["found"] == "the run" and shown.startswith("deployed big")
    assert "the run" in trades.run("%epl spark --frames Trade=df --time ts")
    assert seen[1] == (
        {"Trade": frame},
        {"time": "ts", "sequence": None, "statements": None, "until": None, "leap": False},
    )


def test_compare_in_one_line(trades: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    trades.run("%%epl\n@name('big') select symbol, volume from Trade(volume > 100)")
    trades.cep.send("Trade", symbol="A", volume=200)
    frame = trades.cep.changes("big")
    trades.shell.user_ns["other"] = {"big": frame}
    assert "equal: 1 statement, 1 row" in trades.run("%epl compare --with other --assert")
    trades.shell.user_ns["other"] = {"big": frame.assign(volume=frame["volume"] + 1)}
    shown = trades.run("%epl compare big --with other --key symbol")
    assert "symbol='A'  volume: 200 here, 201 there" in shown
    trades.run("%epl compare --with other --into found --tolerance 0.5")
    assert trades.shell.user_ns["found"].verdict == "different", "whole numbers are equal or not"
    with pytest.raises(AssertionError, match="volume: 200 here, 201 there"):
        trades.cep.compare(trades.shell.user_ns["other"]).assert_same()
    seen: list[object] = []

    def spark(self: Workbench, frames: object, **options: object) -> object:
        seen.append((frames, options["time"], options["statements"]))
        return {"big": frame}

    monkeypatch.setattr(Workbench, "spark", spark)
    assert "equal: 1 statement" in trades.run("%epl compare big --from trades.parquet --time ts")
    assert seen == [({"Trade": "trades.parquet"}, "ts", ["big"])]
    trades.cep.define("Quote", {"bid": "double"})
    assert "--from TYPE=TABLE says which event type" in trades.error("%epl compare --from trades.parquet")


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("--from flights", 'cepbook.spark.local_session().table("flights")'),
        ("--from Other=x,Flight=flights --time at", 'cepbook.spark.local_session().table("flights"), time="at"'),
        ("--from flights.parquet --time Flight=at", '"flights.parquet"'),
        ("--frames Flight=frame", "frame"),
        ("--frames Other=frame", None),
    ],
)
def test_on_spark_an_event_type_that_nobody_defined_is_made_of_what_is_given(
    trades: Notebook, options: str, given: str | None
) -> None:
    trades.shell.user_ns["frame"] = object()
    told = trades.error(f"%%epl --on spark {options}\nselect * from Flight")
    assert "no event type `Flight`" in told
    assert (f'hint: cep.define("Flight", {given}) says what its events look like' in told) is (given is not None)
    assert ("hint: there is Trade" in told) is (given is None)


def test_the_progress_of_spark_is_one_output_of_a_cell_that_empties(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    class Handle:
        def update(self, data: object, raw: bool) -> None:
            shown.append(data)

    def display(data: object, raw: bool, display_id: bool) -> Handle:
        shown.append(("new", data))
        return Handle()

    monkeypatch.setattr("cepbook.magics.extension.display", display)
    cell = 1
    progress = SparkProgress(lambda: cell)
    progress(None)
    for line in ("1 of 2", "2 of 2", None, "1 of 1", None):  # two things that one cell asks of Spark
        progress(line)
    cell = 2
    progress("1 of 3")
    texts = [{"text/plain": text} for text in ("1 of 2", "2 of 2", "", "1 of 1", "", "1 of 3")]
    assert shown == [("new", texts[0]), *texts[1:5], ("new", texts[5])]


def test_wrong_spark_options_deploy_nothing(trades: Notebook) -> None:
    before = trades.deployed()
    assert "no variable `df`" in trades.error("%%epl --on spark --frames Trade=df\n@name('n') select * from Trade")
    assert trades.deployed() == before


def test_a_refused_spark_run_leaves_everything_as_it_was(trades: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[list[str]] = []

    def spark(self: Workbench, frames: object, **options: object) -> str:
        tried.append(sorted(self.runtime.statements))
        raise UsageError("the frame has no such column")

    monkeypatch.setattr(Workbench, "spark", spark)
    trades.shell.user_ns["df"] = object()
    cep = trades.cep
    cep.define("Quote", {"bid": "double"})
    cep.register_function("twice", lambda x: 2 * x)
    trades.run("%%epl\n@name('n') select count(*) as n, twice(1) as two from Trade", "one")
    cep.send("Trade", symbol="A")
    before = dict(cep.runtime.statements)
    changed = "%%epl --on spark --frames Trade=df\n@name('m') select bid from Quote"
    for cell_id in ("one", "two"):
        assert "no such column" in trades.error(changed, cell_id)
        assert dict(cep.runtime.statements) == before, "the same statements, not others of these names"
        assert cep.to_frame("n")["n"].tolist() == [1]
    assert tried == [["all", "m"], ["all", "m", "n"]]
    assert "no property `nope`" in trades.error("%%epl --on spark --frames Trade=df\nselect nope from Quote", "one")
    assert len(tried) == 2
    assert "runs on as it was" in trades.run("%epl help epl")


def test_dropping_tells_all_that_goes(trades: Notebook) -> None:
    trades.run(
        "%%epl\ncreate schema Bid(price double);\n@name('bids') select * from Bid;\n@name('n') select 1 as x from Bid"
    )
    assert trades.run("%epl drop n") == "dropped n"
    trades.run("%%epl --name apart\ncreate schema Ask(price double); @name('asks') select * from Ask")
    assert trades.run("%epl drop asks Ask") == "dropped asks, Ask"
    assert "`Bid` was deployed with `bids`, and goes with them" in trades.error("%epl drop Bid")
    assert trades.run("%epl drop Bid --cascade") == "dropped Bid, bids"


def lines(shown: str) -> list[str]:
    return [line.strip() for line in shown.splitlines()]


def test_variables(trades: Notebook) -> None:
    assert trades.run("%epl variables") == "no variables"
    cell = "create variable int low = 5; create constant variable string NAME = 'n'; create variable string[] tags"
    assert lines(trades.run(f"%%epl\n{cell}")) == [
        "deployed low, NAME, tags",
        "name  kind      columns",
        "low   variable  int",
        "NAME  constant  string",
        "tags  variable  string[]",
    ]
    shown = trades.run("%%epl\n@name('set') on Trade(price > low) set low = 9; @name('q') select low from Trade")
    assert lines(shown)[2:] == ["set   on set  low int", "q     select  low int"]
    assert trades.run("%epl set low = 12") == "low = 12"
    assert trades.run("%epl set low=null # nothing") == "low = null"
    assert trades.run("%epl set tags = {'a b', \"c=d\"}") == 'tags = ["a b", "c=d"]'
    assert lines(trades.run("%epl variables")) == [
        "name  kind      type      value",
        "low   variable  int       null",
        'NAME  constant  string    "n"',
        'tags  variable  string[]  ["a b", "c=d"]',
    ]
    trades.run("%epl set low = 1")
    trades.cep.send("Trade", price=3.0)
    assert trades.cep.get("low") == 9
    shown = lines(trades.run("%%events\nTrade price=20.0"))
    assert [line.split()[1:] for line in shown if "set" in line] == [["set", "+", "9"]]
    assert not any("stmt_" in line for line in shown)
    assert "low" in trades.run("%epl drop low --cascade")
    assert trades.run("%epl variables") == "no variables"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%epl set", "takes a variable and its value, as in `%epl set threshold = 5`"),
        ("%epl set low", "takes a variable and its value"),
        ("%epl set low =", "takes a variable and its value"),
        ("%epl set lov = 5", "there is no variable `lov`\n  hint: did you mean `low`?"),
        ("%epl set low = 5 6", "%epl set low: there is something behind the value"),
        ("%epl set low = x", "`x` is no value"),
        ("%epl set low = 'x'", "variable `low` is int, not 'x'"),
        ("%epl set TOP = 5", "`TOP` is a constant, it cannot be set"),
        ("%epl variables now", "takes no argument"),
    ],
)
def test_mistakes_with_variables(trades: Notebook, line: str, message: str) -> None:
    trades.run("%%epl\ncreate variable int low = 5; create constant variable int TOP = 1")
    assert message in trades.error(line)
    assert trades.cep.get("low") == 5


def test_a_cell_names_python_variables(trades: Notebook) -> None:
    """``:limit`` is the value that the variable has when the cell runs; running the cell again takes its next one."""
    cell = "%%epl\n@name('big') select volume from Trade(volume > :limit)#keepall"
    assert "`:limit` has no value" in trades.error(cell, "c1")
    trades.shell.user_ns["limits"] = 1
    assert "did you mean `limits`?" in trades.error(cell, "c1")
    trades.shell.user_ns["limit"] = [trades]
    assert "of type Notebook, which EPL has no type for" in trades.error(cell, "c1")
    trades.shell.user_ns["limit"] = 100
    assert trades.run(cell, "c1").startswith("deployed big")
    trades.shell.user_ns["limit"] = 1
    trades.cep.send("Trade", volume=50)
    assert trades.cep.iterate("big") == []
    assert trades.run(cell, "c1").startswith("replaced big")
    trades.cep.send("Trade", volume=50)
    assert [row["volume"] for row in trades.cep.iterate("big")] == [50]


def test_named_windows_and_tables_are_listed_and_shown(trades: Notebook) -> None:
    trades.run("%%epl\ncreate window Recent#time(1 day) as Trade; insert into Recent select * from Trade;")
    shown = str(trades.run("%epl list"))
    assert "Recent" in shown and "named windows and tables" in shown
    found = str(trades.run("%epl show Recent"))
    assert found.startswith("named window Recent(") and "holds 0 rows" in found and "filled by" in found


def test_format_and_export(trades: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(trades.shell, "set_next_input", lambda text, replace=False: asked.append((text, replace)))
    shown = trades.run("%%epl --name c --format\nselect   count ( * ) as n from Trade;// all\n")
    assert shown == "%%epl --name c\nselect count(*) as n from Trade;  // all"
    assert asked == [(shown, True)]
    trades.run("%%epl\n@name('q') select   count(*)  as n from Trade")
    assert trades.run("%epl format q") == "@name('q')\nselect count(*) as n from Trade"
    assert trades.run(f"%epl export q '{tmp_path / 'q.csv'}'").startswith("1 row of q written to ")
    assert (tmp_path / "q.csv").read_text() == "n\n0\n"
    assert "takes the name of a statement" in trades.error("%epl format")
    assert "the kinds of files are" in trades.error("%epl export q q.xls")


def test_epl_as_an_expression(trades: Notebook) -> None:
    trades.run("%%events\nTrade = {symbol='A', price=1.5, volume=200}\nTrade = {symbol='B', price=2.5, volume=20}")
    trades.run("least = 100\nrows = %epl select symbol from Trade(volume > :least)  // not a comment of the magic")
    assert trades.shell.user_ns["rows"]["symbol"].tolist() == ["A"]
    assert trades.run("%%epl >> two\nselect symbol, price\nfrom Trade#length(1);") == ""
    assert trades.shell.user_ns["two"]["symbol"].tolist() == ["A", "B"]
    assert trades.deployed()["statements"] == Notebook.deployed(trades)["statements"]
    assert "takes the name of a variable" in trades.error("%%epl >>\nselect * from Trade")
    assert "cannot be the name" in trades.error("%%epl >> 1x\nselect * from Trade")
    assert "cell:2:8" in trades.error("%%epl >> x\nselect prize from Trade")
    assert "unknown subcommand" in trades.error("%epl selekt * from Trade")


def test_tune(trades: Notebook) -> None:
    assert "no variable to tune" in trades.error("%epl tune")
    trades.run("%%epl --quiet\ncreate variable int low = 100; @name('v') select price from Trade(volume > low)")
    trades.run("%%events\nTrade = {symbol='A', price=1.5, volume=200}")
    assert trades.run("%epl tune v --range low=0:500").startswith("controls of low\ntuned: low = 100")
    assert "VARIABLE=LOW:HIGH" in trades.error("%epl tune --range low=5:1")


def test_names_that_are_keywords_are_told_where_they_are_defined(notebook: Notebook) -> None:
    told = notebook.run("cep.define('Order', {'customer': str, 'limit': int})")
    assert told.endswith("in EPL, names that are keywords or have blanks or signs stand in backticks: `Order`, `limit`")
    assert "deployed" in notebook.run("%%epl\nselect customer, `limit` from `Order`")
    assert "backticks" not in notebook.run("cep.define('Payment', {'customer': str})")


FRAME = """import pandas as pd
trips = pd.DataFrame({"bike": [1], "started": pd.to_datetime(["2024-05-06"])})
number = 5"""


def test_a_frame_in_the_place_of_a_stream(notebook: Notebook) -> None:
    """As some databases in notebooks have it; here its rows have to become events first."""
    notebook.run(FRAME)
    hint = 'hint: `trips` is a DataFrame: cep.define("trips", trips, time="started") makes an event type of it'
    for cell in ("%%epl\nselect * from trips", "%epl select * from trips", "rows = %epl select * from trips"):
        assert hint in notebook.error(cell)
    assert "DataFrame" not in notebook.error("%%epl\nselect * from number")
    notebook.run('cep.define("trips", trips)')
    told = notebook.error('cep.replay(trips, "trips")')
    assert 'replay(…, time="started") (--time started in a shell), or define the event type with time="started"' in told
    notebook.run('cep.define("trips", trips, time="started")')
    notebook.run("%%epl\n@name('all') select * from trips")
    assert "1 event finished" in notebook.run('cep.replay(trips, "trips").run()')


def test_what_a_select_could_not_know_is_said_in_a_sentence(trades: Notebook) -> None:
    """A warning showed a path and a line of this package."""
    trades.run("for i in range(2_100): cep.send('Trade', symbol='A', price=float(i))")
    shown = trades.run("rows = %epl select count(*) as n from Trade\nprint(len(rows))")
    assert shown.startswith("only the latest 2,000 events happen anew") and "again.py" not in shown
    assert "only the latest" in trades.run("%%epl >> rows\nselect count(*) as n from Trade")
    assert len(trades.shell.user_ns["rows"]) == 2_000
