"""Python values for the parameters of a module."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.engine.runtime import Config
from cepbook.errors import BindError, ParseError, UsageError

SCHEMA = "create schema Tick(symbol string, price double, volume int);"


def bench(text: str, parameters: Any) -> Workbench:
    cep = Workbench()
    cep.run(SCHEMA)
    cep.run(text, parameters=parameters)
    return cep


def value_of(value: Any, config: Config = Config()) -> tuple[Any, str]:
    cep = Workbench(config=config)
    cep.run("@name('v') select :it as v", parameters={"it": value})
    return cep.iterate("v")[0]["v"], str(cep.runtime.statement("v").output_type.properties["v"])


@pytest.mark.parametrize(
    ("value", "plain", "type_"),
    [
        (True, True, "boolean"),
        (np.bool_(False), False, "boolean"),
        (5, 5, "int"),
        (-5, -5, "int"),
        (np.int64(5), 5, "int"),
        (1 << 31, 1 << 31, "long"),
        (1 << 63, 1 << 63, "biginteger"),
        (1.5, 1.5, "double"),
        (np.float64(1.5), 1.5, "double"),
        (float("inf"), float("inf"), "double"),
        ("it's", "it's", "string"),
        (Decimal("1.50"), Decimal("1.50"), "bigdecimal"),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000, "long"),
        (date(1970, 1, 2), 86_400_000, "long"),
        (pd.Timestamp("2024-01-01"), 1704067200000, "long"),
        (np.datetime64("1970-01-01T00:00:01"), 1000, "long"),
        (timedelta(seconds=2), 2000, "long"),
        ([1, 2], [1, 2], "int[]"),
        ((1, None, 2.5), [1.0, None, 2.5], "double[]"),
        (np.array([1.0, 2.0]), [1.0, 2.0], "double[]"),
        (pd.Series(["a", "b"]), ["a", "b"], "string[]"),
        (range(3), [0, 1, 2], "int[]"),
    ],
)
def test_values_are_the_literals_that_one_would_write(value: Any, plain: Any, type_: str) -> None:
    literal, type_text = value_of(value)
    assert (literal, type_text) == (plain, type_)


@pytest.mark.parametrize("value", [None, float("nan"), pd.NaT, pd.NA])
def test_missing_values_are_null(value: Any) -> None:
    cep = bench("@name('v') select volume from Tick#keepall where :it is null", {"it": value})
    cep.send("Tick", volume=1)
    assert cep.to_frame("v")["volume"].tolist() == [1]


@pytest.mark.parametrize("value", [object(), {"a": 1}, b"x", [[1], [2]], [object()], {1, 2}, lambda: 1, 1j])
def test_what_has_no_type_is_told_at_its_place(value: Any) -> None:
    with pytest.raises(BindError) as caught:
        bench("select * from Tick(volume > :limit)", {"limit": value})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "type-mismatch" and ":limit" in diagnostic.message
    assert "select * from Tick(volume > :limit)"[diagnostic.span.start : diagnostic.span.end] == ":limit"


def test_a_parameter_without_a_value_names_the_nearest() -> None:
    with pytest.raises(BindError, match="did you mean `limit`") as caught:
        bench("select * from Tick(volume > :limt)", {"limit": 1, "_limt": 2})
    assert caught.value.diagnostics[0].code == "unknown-parameter"
    with pytest.raises(BindError, match="parameter 2 has no value"):
        bench("select ? as a, ? as b from Tick", [1])
    with pytest.raises(BindError, match="has no value"):
        Workbench().run("select :x as a")
    with pytest.raises(UsageError, match="parameters are a dict"):
        bench("select ? as a from Tick", "x")
    with pytest.raises(ParseError):
        bench("select ? from", [1])


def test_a_declared_type_widens_and_never_narrows() -> None:
    cep = bench("@name('v') select ?:x:long as a, ?:x:double as b, ?:y:bigdecimal as c from Tick", {"x": 1, "y": 2})
    assert [str(of) for of in cep.runtime.statement("v").output_type.properties.values()] == [
        "long",
        "double",
        "bigdecimal",
    ]
    with pytest.raises(BindError, match="`:x` is declared as int, found double"):
        bench("select ?:x:int as a from Tick", {"x": 1.5})
    with pytest.raises(BindError, match="is declared as byte, found int"):
        bench("select ?:x:byte as a from Tick", {"x": 128})


def test_values_stay_until_the_text_runs_again() -> None:
    limits = {"limit": 10}
    text = "@name('big') select volume from Tick(volume > :limit)#keepall"
    cep = bench(text, limits)
    limits["limit"] = 1
    cep.send("Tick", volume=5)
    assert cep.to_frame("big").empty
    cep.run(text, parameters=limits)
    cep.send("Tick", volume=5)
    assert cep.to_frame("big")["volume"].tolist() == [5]


def test_dependants_that_are_deployed_anew_keep_their_values() -> None:
    cep = Workbench()
    cep.run("create schema Base(n int)", cell="a")
    cep.run("@name('d') select n from Base(n > :limit)#keepall", cell="b", parameters={"limit": 3})
    cep.run("create schema Base(n int, m int)", cell="a")
    cep.send("Base", n=3)
    cep.send("Base", n=4)
    assert cep.to_frame("d")["n"].tolist() == [4]


def test_values_are_saved_with_the_module(tmp_path: Path) -> None:
    values = {"limit": 3, "names": ["a", None], "far": Decimal("1.5"), "most": float("inf")}
    text = "@name('d') select volume, :names as ns, :far as f from Tick(volume > :limit, price < :most)#length(:limit)"
    cep = bench(text, values)
    cep.send("Tick", volume=4, price=1.0)
    cep.save(tmp_path / "saved")
    other = Workbench()
    other.load(tmp_path / "saved")
    for workbench in (cep, other):
        workbench.send("Tick", volume=3, price=1.0)
        workbench.send("Tick", volume=9, price=1.0)
    assert other.iterate("d") == cep.iterate("d")
    assert [row["f"] for row in other.iterate("d")] == [Decimal("1.5")] * 2


def test_declared_types_are_those_of_java_and_arrays_too() -> None:
    text = "@name('v') select ?:n:java.lang.Long as n, ?:xs:double[] as xs, ?:ys:int[primitive] as ys from Tick#keepall"
    cep = bench(text, {"n": 1, "xs": [1, None], "ys": [2]})
    assert [str(of) for of in cep.runtime.statement("v").output_type.properties.values()] == [
        "long",
        "double[]",
        "int[]",
    ]
    cep.send("Tick", volume=1)
    assert cep.iterate("v") == [{"n": 1, "xs": [1.0, None], "ys": [2]}]
    for value, message in (
        (5, "`:xs` is declared as int\\[\\], found int"),
        ([1.5], "is declared as int, found double"),
    ):
        with pytest.raises(BindError, match=message):
            bench("select ?:xs:int[] as xs from Tick", {"xs": value})
    with pytest.raises(BindError, match="no type `java"):
        bench("select ?:n:java.lang.Itneger as n from Tick", {"n": 1})


def test_more_values_than_there_are_parameters_are_told() -> None:
    with pytest.raises(BindError, match="there are 3 values for 2 parameters") as caught:
        bench("select ? as a, ? as b from Tick", [1, 2, 3])
    assert caught.value.diagnostics[0].code == "unknown-parameter"
    bench("select :a as a from Tick", {"a": 1, "other": 2})  # a notebook gives all that it has
