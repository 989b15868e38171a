"""Wrong arguments of the workbench: a message that says what, where and what to do, and nothing has changed."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.session import arguments

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
    "again": {"values": {"least": 4.0}},
    "answer": {"epl": "select * from W"},
    "changes": {"name": "out"},
    "define": {"name": "New", "source": {"a": "int"}},
    "drop": {"name": "out"},
    "end_partition": {"context": "PerSymbol", "partition": 0},
    "explain": {"name_or_epl": "out"},
    "export": {"name": "out", "path": "o.csv"},
    "feed": {"name": "out"},
    "get": {"name": "least"},
    "iterate": {"name": "out"},
    "keeps_rows": {"name": "out"},
    "load": {"path": "saved"},
    "marble": {"name": "out"},
    "on": {"name": "out", "fn": print},
    "on_partition": {"context": "PerSymbol", "fn": print},
    "partials": {"name": "pat"},
    "partitions": {"context": "PerSymbol"},
    "prepare": {"epl": "select * from W"},
    "problems": {"epl": "select 1 from Tick"},
    "query": {"epl": "select * from W"},
    "register_function": {"name": "f", "fn": lambda x: x, "returns": "int"},
    "replace_rows": {"name": "T", "rows": [{"k": "a", "n": 1}]},
    "replay": {"events": TICKS, "type": "Tick", "time": "at"},
    "run": {"epl": "select * from Tick"},
    "save": {"path": "saved"},
    "set": {"name": "least", "value": 3.0},
    "sink": {"name": "out", "path": "o.csv"},
    "stream": {"name": "out"},
    "timeline": {"context": "PerSymbol"},
    "to_frame": {"name": "out"},
    "why": {"name": "out"},
    "why_row": {"name": "out", "delivery": 0, "behind": 0, "insert": True},
}
ELSEWHERE = {"function", "aggregate", "window", "live", "run_clock", "compare", "spark", "send", "send_together"}
BAD = (None, 0, -1, 1.5, "", "nosuch", b"text", [], [1], {1: 2}, (), object(), timedelta(1), np.array([1, 2]), TICKS)


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


def test_every_public_method_is_tried() -> None:
    public = {name for name, _ in inspect.getmembers(Workbench, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in public if asked(name)} == {*GOOD, *ELSEWHERE}


@pytest.mark.parametrize("method", GOOD)
def test_a_wrong_argument_is_told(method: str, deployed: bytes, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved").write_bytes(deployed)
    parameters = inspect.signature(getattr(Workbench, method)).parameters
    for name in asked(method):
        if parameters[name].kind == inspect.Parameter.VAR_KEYWORD:
            continue
        cep = Workbench()
        cep.load("saved")
        for bad in BAD:
            try:
                getattr(cep, method)(**{**GOOD[method], name: bad})
            except CepbookError as error:
                assert len(str(error)) > 12
            else:  # it was none too bad, and may have done something
                cep = Workbench()
                cep.load("saved")


@pytest.mark.parametrize(
    ("given", "said"),
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
def test_the_clock_says_what_it_takes(given: dict[str, Any], said: str) -> None:
    cep = Workbench()
    with pytest.raises(UsageError) as error:
        cep.advance(**given)
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
    with pytest.raises(TypeError, match="unexpected keyword argument 'nam'"):
        Workbench().feed(nam="x")  # type: ignore[call-arg]
    assert arguments.shown("a\nb" * 40).endswith("… (str)")
