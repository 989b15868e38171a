"""Wrong arguments of the workbench: a message that says what, where and what to do, and nothing has changed."""

from __future__ import annotations

import inspect
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook import Workbench, argument_checks, spark
from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.spark.execution import epl_module as spark_module
from cepbook.spark.execution import execution, table_function

EPL = """create schema Tick(symbol string, price double);
create context PerSymbol partition by symbol from Tick;
create variable double least = 3;
create table T(k string primary key, n long);
create window W#keepall as Tick;
insert into W select * from Tick;
@name('out') select irstream symbol, price from Tick#length(3);
@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(2);
@name('pat') select a.price as p from pattern [every a=Tick(price > 2) -> b=Tick(price > a.price)]"""
TICKS = pd.DataFrame({"at": [10, 20], "symbol": ["a", "b"], "price": [1.0, 2.0]})
GOOD: dict[str, dict[str, Any]] = {
    "advance": {"to": 10},
    "aggregate": {"code": lambda prices: 1.0, "name": "agg"},
    "again": {"values": {"least": 4.0}},
    "answer": {"epl": "select * from W"},
    "cell_of": {"deployment": "cell"},
    "changes": {"name": "out"},
    "chart": {"name": "out"},
    "compare": {"batch": {"out": TICKS.rename(columns={"at": "time"}).assign(kind="insert")}},
    "define": {"name": "New", "source": {"a": "int"}},
    "drop": {"name": "out"},
    "end_partition": {"context": "PerSymbol", "partition": 0},
    "events_before": {"name": "out"},
    "explain": {"name_or_epl": "out"},
    "export": {"name": "out", "path": "o.csv"},
    "feed": {"name": "out"},
    "function": {"code": abs, "name": "absolute"},
    "get": {"name": "least"},
    "iterate": {"name": "out"},
    "journal": {"path": "journal"},
    "keeps_rows": {"name": "out"},
    "live": {"sources": {"Tick": []}},
    "load": {"path": "saved"},
    "marble": {"name": "out"},
    "on": {"name": "out", "fn": print},
    "on_partition": {"context": "PerSymbol", "fn": print},
    "partials": {"name": "pat"},
    "partitions": {"context": "PerSymbol"},
    "prepare": {"epl": "select * from W"},
    "problems": {"epl": "select 1 from Tick"},
    "query": {"epl": "select * from W"},
    "recover": {"path": "journal"},
    "register_function": {"name": "f", "fn": lambda x: x, "returns": "int"},
    "replace_rows": {"name": "T", "rows": [{"k": "a", "n": 1}]},
    "replay": {"events": TICKS, "type": "Tick", "time": "at"},
    "run": {"epl": "select * from Tick"},
    "run_clock": {},
    "save": {"path": "saved"},
    "set": {"name": "least", "value": 3.0},
    "send": {"type_name": "Tick", "event": {"price": 1.0}},
    "seen_texts": {"event_type": "Tick", "name": "symbol"},
    "send_together": {"events": ("Tick", {})},
    "sink": {"name": "out", "path": "o.csv"},
    "spark": {"df_by_type": {"Tick": TICKS}, "time": "at"},
    "stream": {"name": "out"},
    "timeline": {"context": "PerSymbol"},
    "to_frame": {"name": "out"},
    "why": {"name": "out"},
    "why_row": {"name": "out", "delivery": 0, "rows_after": 0, "insert": True},
    "window": {"code": lambda prices: 1, "name": "win"},
}
SPARK: dict[str, dict[str, Any]] = {
    "compare": {"interactive": {"out": TICKS}, "batch": {"out": TICKS}},
    "from_kafka": {"messages": TICKS, "event_type": "Tick"},
    "register_sql": {"name": "f", "epl": "select * from Tick", "frames": {"Tick": TICKS}, "time": "at"},
    "run": {"frames": {"Tick": TICKS}, "time": "at"},
    "sql": {"epl": "select * from Tick", "frames": {"Tick": TICKS}, "time": "at"},
    "stream": {"frames": {"Tick": TICKS}, "time": "at"},
}


class Unreadable:
    """Neither shown nor true nor equal to anything."""

    def __repr__(self) -> str:
        raise ValueError("no text")

    __bool__ = __eq__ = __repr__  # type: ignore[assignment]


class Unmakeable:
    """An aggregate that fails when it is made."""

    def __init__(self) -> None:
        raise RuntimeError("not made")

    enter = value = __init__


def unresolved(x: nosuch) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 1


unresolved.__annotations__ = {"x": "1 +"}
BAD = (None, 0, -1, 1.5, "", "nosuch", b"text", [], [1], {1: 2}, (), object(), timedelta(1), np.array([1, 2]), TICKS)
BAD += ("\0", "x" * 100_000, float("nan"), 10**5000, {"Tick": None}, {"Tick": TICKS}, ("Tick",), ("Tick", 5), pd.NaT)
BAD += ([("Tick", {})], Unreadable(), Unmakeable, unresolved, {"nosuch"}, range(3), iter([]), True)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    cep = Workbench()
    cep.run(EPL)
    cep.send("Tick", symbol="a", price=3.0)
    path = tmp_path_factory.mktemp("saved") / "it"
    cep.save(path)
    return path.read_bytes()


def asked(method: str) -> list[str]:
    return [name for name in inspect.signature(getattr(Workbench, method)).parameters if name != "self"]


def tried(call: Any, good: dict[str, Any], parameters: Any) -> None:
    """Call it with one argument after the other wrong: nothing comes but an error of ours, which says something."""
    for name, parameter in parameters.items():
        if parameter.kind == inspect.Parameter.VAR_KEYWORD or name in ("self", "now", "sleep"):  # two are for tests
            continue
        for bad in BAD:
            arguments = {**good, name: bad}
            placed = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
            args = [arguments.pop(n) for n in placed if n in arguments]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(*args, **arguments)
            except CepbookError as error:
                assert 12 < len(str(error)) < 2_000


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments are looked at before a session is started."""

    def started() -> None:
        raise UsageError("a session would be started now")

    for module in (execution, spark_module, table_function):
        monkeypatch.setattr(module, "local_session", started)


def test_every_public_method_is_tried() -> None:
    public = {name for name, _ in inspect.getmembers(Workbench, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in public if asked(name)} == {*GOOD}
    assert {name for name in spark.__all__ if name[:1].islower()} == {*SPARK, "local_session"}


@pytest.mark.parametrize("method", GOOD)
def test_a_wrong_argument_is_told(
    method: str, deployed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_session: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved").write_bytes(deployed)

    left: list[Workbench] = []

    def call(*args: Any, **keywords: Any) -> None:
        if not left:
            left.append(Workbench())
            left[0].load("saved")
        getattr(left[0], method)(*args, **keywords)
        left.clear()  # it was none too bad, and may have done something

    tried(call, GOOD[method], inspect.signature(getattr(Workbench, method)).parameters)


@pytest.mark.parametrize("function", SPARK)
def test_a_wrong_argument_of_the_bridge_is_told_before_a_job_starts(function: str, no_session: None) -> None:
    cep = Workbench()
    cep.run(EPL)
    parameters = inspect.signature(getattr(spark, function)).parameters
    needed = {"runtime": cep.runtime} if "runtime" in parameters else {}
    tried(getattr(spark, function), needed | SPARK[function], parameters)


@pytest.mark.parametrize("name", ["start", "feed_capacity", "config"])
def test_a_workbench_is_made_of_what_it_takes(name: str) -> None:
    tried(Workbench, {}, {name: inspect.signature(Workbench).parameters[name]})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"by": 0}, "0 is not a time period such as '10 sec' or '1 hour 30 minutes', or a timedelta"),
        ({"by": -5}, "-5 is not a time period"),
        ({"by": b"1 sec"}, "b'1 sec' is not a time period"),
        ({}, 'advance the clock to a time or by a period\n  hint: advance(by="10 sec")'),
        ({"to": None, "by": None}, "advance the clock to a time or by a period\n"),
        ({"to": 5, "by": "1 sec"}, "to a time or by a period, not both: 5 (int) and '1 sec' (str)"),
        ({"to": np.array([1, 2])}, "array([1, 2]) is not a point in time"),
        ({"to": 5, "stepping": "yes"}, "advance: `stepping` is True or False, not 'yes' (str)"),
    ],
)
def test_the_clock_says_what_it_takes(arguments: dict[str, Any], said: str) -> None:
    cep = Workbench()
    with pytest.raises(UsageError) as error:
        cep.advance(**arguments)
    assert said in str(error.value)
    assert cep.clock.ms == 0


def test_a_period_backwards_is_an_error_of_the_clock() -> None:
    with pytest.raises(EventError, match="cannot go back"):
        Workbench().advance(by=timedelta(seconds=-1))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda cep: cep.feed(5), "feed: `name` is text, not 5 (int)"),
        (lambda cep: cep.save(None), "save: `path` is a path, not None (NoneType)"),
        (lambda cep: cep.again({1: 2}), "again: `values` is a dict by name, or None, not {1: 2} (dict)"),
        (lambda cep: cep.again(past=3), "`past` is what `Workbench.past()` gives, not 3 (int)"),
        (lambda cep: cep.marble("out", events="x" * 99), "is a whole number, not 'xxxxx"),
        (lambda cep: cep.partitions("PerSymbol", {1: 2}), "`1`"),
        (lambda cep: cep.define("New", {"a": "int"}, inherits=7), "define: `inherits` is a name or a list of names"),
    ],
)
def test_what_is_expected_is_said(call: Any, said: str) -> None:
    cep = Workbench()
    cep.run(EPL)
    with pytest.raises(UsageError) as error:
        call(cep)
    assert said in str(error.value)


def test_methods_look_as_they_did() -> None:
    assert (
        str(inspect.signature(Workbench.drop)) == "(self, name: 'str', *, cascade: 'bool' = False) -> 'tuple[str, ...]'"
    )
    assert (Workbench.drop.__doc__ or "").startswith("Drop the statement")
    cep = Workbench()
    with pytest.raises(TypeError) as error:
        cep.feed(nam="x")  # type: ignore[call-arg]
    assert str(error.value) == "feed: there is no argument `nam`\n  hint: did you mean `name`?"
    with pytest.raises(TypeError) as error:
        cep.drop("a", even_more=True)  # type: ignore[call-arg]
    assert str(error.value) == "drop: there is no argument `even_more`\n  hint: there are name, cascade"
    with pytest.raises(TypeError) as error:
        cep.reset(hard=True)  # type: ignore[call-arg]
    assert str(error.value) == "reset: there is no argument `hard`\n  hint: it takes none by name"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        cep.feed()  # type: ignore[call-arg]
    assert argument_checks.describe_value("a\nb" * 40).endswith("… (str)")


@pytest.mark.parametrize("method", ["advance", "to_frame", "why", "live"])
def test_what_python_tells_names_the_workbench(method: str) -> None:
    """And not the class that the method stands in."""
    with pytest.raises(TypeError, match=rf"^Workbench\.{method}\(\) "):
        getattr(Workbench(), method)(*range(9))
