"""Functions and aggregates from Python."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import BindError, CepbookError, EventError, SnapshotError, StatementError, UsageError
from cepbook.session import WindowClock

SCHEMA = "create schema Tick(symbol string, price double, volume int);"


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run(SCHEMA)
    return workbench


def last(cep: Workbench, name: str = "s") -> dict[str, Any]:
    return cep.iterate(name)[-1]


class Ema:
    """An exponential mean of what came in, which nothing leaves."""

    def __init__(self) -> None:
        self.mean: float | None = None

    def enter(self, price: float) -> None:
        self.mean = price if self.mean is None else 0.5 * price + 0.5 * self.mean

    def value(self) -> float | None:
        return self.mean


class Slope:
    """The slope of a straight line through the points in the window, by sums."""

    def __init__(self) -> None:
        self.sums = [0.0] * 5

    def _add(self, x: float, y: float, sign: int) -> None:
        self.sums = [s + sign * d for s, d in zip(self.sums, (1, x, y, x * x, x * y), strict=True)]

    def enter(self, x: float, y: float) -> None:
        self._add(x, y, 1)

    def leave(self, x: float, y: float) -> None:
        self._add(x, y, -1)

    def value(self) -> float | None:
        n, x, y, xx, xy = self.sums
        spread = n * xx - x * x
        return None if not spread else (n * xy - x * y) / spread


def test_types_come_from_annotations(cep: Workbench) -> None:
    @cep.function
    def spread(bid: float, ask: float) -> float:
        assert isinstance(bid, float) and isinstance(ask, float)
        return ask - bid

    @cep.function(name="shout")
    def louder(text: str | None, times: int = 1) -> str:
        return (text or "nothing").upper() * times

    cep.run("@name('s') select spread(volume, price) as a, shout(symbol) as b, shout(symbol, 2) as c from Tick#keepall")
    types = cep.runtime.statement("s").output_type.properties
    assert [str(of) for of in types.values()] == ["double", "string", "string"]
    cep.send("Tick", symbol="a", price=2.5, volume=1)
    assert last(cep) == {"a": 1.5, "b": "A", "c": "AA"}
    cep.send("Tick", price=2.5)
    assert last(cep) == {"a": None, "b": "NOTHING", "c": "NOTHINGNOTHING"}, "a null where None is not allowed is null"
    assert spread(1.0, 2.0) == 1.0, "the function stays what it is"


@pytest.mark.parametrize(
    ("epl", "message"),
    [
        ("select spread(price) from Tick", "`spread` takes 2 parameters, found 1"),
        ("select spread(price, symbol) from Tick", "parameter 2 of `spread` must be double, found string"),
        ("select spread(distinct price, price) from Tick", "`spread` takes plain values only"),
        ("select mad(price) from Tick", "`mad` needs a data window"),
        ("select mad(symbol) from Tick#keepall", "parameter 1 of `mad` must be double, found string"),
        ("select mad(price, volume, 1) from Tick#keepall", "too many parameters for `mad`"),
        ("select price from Tick#keepall where mad(price) > 1", "aggregate `mad` in the where-clause"),
        ("select slope(price) from Tick#keepall", "`slope` takes 2 parameters, found 1"),
        ("select ema(price) from Tick#length(3)", "aggregate ema has no method leave, but events leave its window"),
    ],
)
def test_wrong_calls_are_told_at_their_place(cep: Workbench, epl: str, message: str) -> None:
    @cep.function
    def spread(bid: float, ask: float) -> float:
        return ask - bid

    @cep.aggregate
    def mad(prices: list[float]) -> float:
        return 0.0

    cep.aggregate(name="slope")(Slope)
    cep.aggregate(name="ema")(Ema)
    with pytest.raises(CepbookError, match=message):
        cep.run(epl)


def test_an_aggregate_of_numpy(cep: Workbench) -> None:
    """The median absolute deviation, and a correlation of two columns, over windows and groups, nulls left out."""

    @cep.aggregate
    def mad(prices: list[float]) -> float:
        values = np.array(prices)
        return np.median(np.abs(values - np.median(values)))  # type: ignore[no-any-return]

    @cep.aggregate
    def corr(prices: list[float], volumes: list[int]) -> float | None:
        if len(prices) < 2:
            return None
        return np.corrcoef(prices, volumes)[0, 1]  # type: ignore[no-any-return]

    cep.run(
        "@name('s') select symbol, mad(price) as m, corr(price, volume) as c, mad(price, volume > 2) as big"
        " from Tick#length(4) group by symbol order by symbol"
    )
    sent: list[tuple[str, float | None, int]] = [
        ("a", 1.0, 1), ("b", 5.0, 2), ("a", 4.0, 3), ("a", None, 4), ("a", 9.0, 5), ("b", 1.0, 1), ("a", 2.0, 8),
    ]  # fmt: skip
    for symbol, price, volume in sent:
        cep.send("Tick", symbol=symbol, price=price, volume=volume)
    rows = {row["symbol"]: row for row in cep.iterate("s")}
    window = [tick for tick in sent[-4:] if tick[1] is not None]
    for symbol, row in rows.items():
        prices = [p for s, p, _ in window if s == symbol and p is not None]
        volumes = [v for s, p, v in window if s == symbol]
        median = statistics.median(prices)
        assert row["m"] == statistics.median(abs(p - median) for p in prices)
        assert (row["c"] is None) == (len(prices) < 2)
        if row["c"] is not None:
            assert row["c"] == pytest.approx(np.corrcoef(prices, volumes)[0, 1])
    assert type(rows["a"]["m"]) is float
    assert rows["b"]["big"] is None, "no event passes the filter"


def test_an_aggregate_of_a_class_follows_the_window(cep: Workbench) -> None:
    cep.aggregate(name="slope")(Slope)
    cep.aggregate(name="ema")(Ema)
    cep.run(
        "@name('s') select slope(volume, price) as m from Tick#length(3); @name('e') select ema(price) as e from Tick"
    )
    points = [(1, 2.0), (2, 4.0), (3, 9.0), (5, None), (4, 1.0), (6, 3.0)]
    for x, y in points:
        cep.send("Tick", volume=x, price=y)
    complete = [(x, y) for x, y in points[-3:] if y is not None]
    slope, _ = np.polyfit([x for x, _ in complete], [y for _, y in complete], 1)
    assert last(cep)["m"] == pytest.approx(slope)
    assert last(cep, "e")["e"] == pytest.approx(3.25)


def test_state_of_a_class_is_saved_where_it_is_plain_data(cep: Workbench, tmp_path: Path) -> None:
    cep.aggregate(name="slope")(Slope)
    cep.run("@name('s') select slope(volume, price) as m from Tick#length(3)")
    for x, y in [(1, 2.0), (2, 4.0), (3, 9.0)]:
        cep.send("Tick", volume=x, price=y)
    cep.save(tmp_path / "saved")
    other = Workbench()
    with pytest.raises(SnapshotError, match="functions that are not registered: `slope`"):
        other.load(tmp_path / "saved")
    other.aggregate(name="slope")(Slope)
    other.load(tmp_path / "saved")
    for workbench in (cep, other):
        workbench.send("Tick", volume=9, price=1.0)
    assert last(other) == last(cep)

    @cep.aggregate(name="hidden")
    class Hidden:
        def __init__(self) -> None:
            self.values = np.zeros(2)

        def enter(self, price: float) -> None:
            self.values = self.values + price

        def value(self) -> float:
            return float(self.values.sum())

    cep.run("@name('h') select hidden(price) as h from Tick")
    cep.send("Tick", price=1.5)
    assert last(cep, "h") == {"h": 3.0}
    with pytest.raises(SnapshotError, match=r"holds a value of type numpy.ndarray, which cannot be saved"):
        cep.save(tmp_path / "other")


def test_what_fails_is_told_and_goes_on(cep: Workbench) -> None:
    @cep.function
    def inverse(x: float) -> float:
        return 1 / x

    @cep.function
    def liar(x: float) -> int:
        return "many"  # type: ignore[return-value]

    @cep.aggregate
    class picky:
        def __init__(self) -> None:
            self.total = 0.0

        def enter(self, price: float) -> None:
            if price < 0:
                raise ValueError("below zero")
            self.total += price

        def leave(self, price: float) -> None:
            self.total -= price

        def value(self) -> float:
            return self.total

    cep.run("@name('i') select inverse(price) as v from Tick#lastevent; @name('l') select liar(price) as v from Tick")
    cep.run("@name('p') select picky(price) as v from Tick#length(1); @name('n') select count(*) as n from Tick")
    with pytest.raises((StatementError, EventError, CepbookError), match=r"liar|inverse|picky|gave|divi"):
        cep.send("Tick", price=0.0)
    messages = " ".join(str(error) for error in cep.errors)
    assert "ZeroDivisionError" in messages and "'many', which is no long" in messages
    with pytest.raises(CepbookError):
        cep.send("Tick", price=-1.0)
    assert any("`picky` failed: ValueError: below zero" in str(error) for error in cep.errors)
    with pytest.raises(CepbookError):
        cep.send("Tick", price=2.0)
    assert last(cep, "n") == {"n": 3}
    assert last(cep, "i")["v"] == 0.5


def test_what_cannot_be_registered(cep: Workbench) -> None:
    def odd(x: bytes) -> float:
        return 0.0

    class Slots:
        __slots__ = ("x",)

        def enter(self, x: float) -> None: ...
        def value(self) -> float:
            return 0.0

    class Needs:
        def __init__(self, n: int) -> None: ...
        def enter(self, x: float) -> None: ...
        def value(self) -> float:
            return 0.0

    def plain(x: float) -> float:
        return x

    with pytest.raises(UsageError, match=r"`odd\(x\)`: bytes has no EPL type"):
        cep.function(odd)
    with pytest.raises(UsageError, match="has __slots__"):
        cep.aggregate(Slots)
    with pytest.raises(UsageError, match="must be made without arguments"):
        cep.aggregate(Needs)
    with pytest.raises(UsageError, match="has no method `enter`"):
        cep.aggregate(type("Empty", (), {}))
    with pytest.raises(UsageError, match="must be lists"):
        cep.aggregate(plain)
    with pytest.raises(UsageError, match="decorates a function"):
        cep.function(Slope)
    with pytest.raises(UsageError, match="EPL has a function of this name"):
        cep.function(name="sum")(plain)
    with pytest.raises(UsageError, match="letter"):
        cep.function(lambda x: x)


def test_functions_take_arrays_and_results_of_methods(cep: Workbench) -> None:
    @cep.function
    def top(values: list[float], count: int) -> list[float]:
        values.sort(reverse=True)  # a copy: the window stays as it is
        return values[:count]

    cep.run(
        "@name('s') select top(window(price), 2).sumOf() as a, top(window(*).selectFrom(t => t.price), 1) as b,"
        " window(price) as w from Tick#keepall"
    )
    for price in (1.0, 5.0, 3.0):
        cep.send("Tick", price=price)
    assert last(cep) == {"a": 8.0, "b": [5.0], "w": [1.0, 5.0, 3.0]}


def test_arguments_of_other_types_are_refused_when_compiled(cep: Workbench) -> None:
    @cep.function
    def top(values: list[float]) -> float:
        return max(values)

    with pytest.raises(BindError, match=r"parameter 1 of `top` must be double\[\], found string\[\]"):
        cep.run("select top(window(symbol)) from Tick#keepall")


# ---------------------------------------------------------------- data windows
def usual(prices: list[float]) -> list[bool]:
    """Events within one and a half standard deviations of the mean."""
    values = np.array(prices)
    return list(np.abs(values - values.mean()) <= 1.5 * values.std())


def budget(prices: list[float], limit: int) -> int:
    """As many of the newest as add up to no more than the newest event's limit."""
    total, count = 0.0, 0
    for price in reversed(prices):
        total += price
        if total > limit:
            break
        count += 1
    return count


def test_a_window_of_numpy_holds_what_is_usual(cep: Workbench) -> None:
    cep.window(usual)
    cep.run("@name('s') select irstream price, count(*) as n, window(price) as w from Tick#usual(price)")
    deliveries: list[Any] = []
    cep.on(
        "s",
        lambda delta: deliveries.append(
            ([r["price"] for r in delta.insert or ()], [r["price"] for r in delta.remove or ()])
        ),
    )
    retained: list[float] = []
    for price in (10.0, 11.0, 10.5, 99.0, 9.5, 10.0, 10.2, 9.9, 10.1, 30.0):
        cep.send("Tick", price=price)
        before = [*retained, price]
        retained = [p for p, stays in zip(before, usual(before), strict=True) if stays]
        assert deliveries[-1] == ([price], [p for p in before if p not in retained])
        assert [row["price"] for row in cep.iterate("s")] == retained
    assert 99.0 not in retained and 30.0 not in retained and len(retained) > 3
    cep.send("Tick", symbol="no price")
    assert deliveries[-1] == ([None], [None]), "an event with a null that is not allowed is not held"


def test_windows_from_python_combine_and_are_saved(cep: Workbench, tmp_path: Path) -> None:
    cep.window(budget)
    cep.run(
        "@name('s') select symbol, sum(price) as s, prev(1, price) as p from Tick#budget(price, volume)"
        " group by symbol;"
        "@name('g') select symbol, price from Tick#groupwin(symbol)#budget(price, 5);"
        "@name('i') select price from Tick#length(2)#budget(price, volume);"
        "create window W#budget(price, volume) as Tick; insert into W select * from Tick;"
        "on Tick(volume = 0) delete from W"
    )
    for number, price in enumerate((4.0, 5.0, 1.0, 3.0)):
        cep.send("Tick", symbol="ab"[number % 2], price=price, volume=6)
    cep.save(tmp_path / "saved")
    other = Workbench()
    other.window(budget)
    other.load(tmp_path / "saved")
    for workbench in (cep, other):
        assert [r["price"] for r in workbench.iterate("i")] == [1.0, 3.0]
        assert sorted(r["price"] for r in workbench.iterate("g")) == [1.0, 3.0, 4.0]
        workbench.send("Tick", symbol="a", price=2.0, volume=6)
        assert {r["symbol"]: r["s"] for r in workbench.iterate("s")} == {"a": 3.0, "b": 3.0}
        assert [r["price"] for r in workbench.iterate("i")] == [3.0, 2.0]
        assert workbench.query("select price from W")["price"].tolist() == [1.0, 3.0, 2.0]
        workbench.send("Tick", symbol="a", price=0.5, volume=0)
        assert workbench.query("select price from W").empty


@pytest.mark.parametrize(
    ("epl", "message"),
    [
        ("select * from Tick#budget(price)", "`budget` takes 2 parameters, found 1"),
        ("select * from Tick#budget(symbol, 1)", "parameter 1 of `budget` must be double, found string"),
        ("select * from Tick#win:budget(price, 1)", "no data window `win:budget`"),
        ("select budget(price, 1) from Tick", "`budget` is a data window"),
        ("select * from Tick#budgat(price, 1)", "no data window `budgat`"),
    ],
)
def test_wrong_windows_are_told_at_their_place(cep: Workbench, epl: str, message: str) -> None:
    cep.window(budget)
    with pytest.raises(CepbookError, match=message):
        cep.run(epl)


def test_a_window_that_fails_is_told_and_holds_what_it_held(cep: Workbench) -> None:
    @cep.window
    def shaky(prices: list[float]) -> Any:
        return {1.0: "all", 2.0: [True, True]}.get(prices[-1], 1 / (prices[-1] - 3))

    @cep.window(name="whole")
    def everything(prices: list[float]) -> None:
        prices.clear()

    cep.run("@name('s') select price from Tick#shaky(price); @name('w') select price from Tick#whole(price)")
    for price in (1.0, 2.0, 3.0):
        with pytest.raises(CepbookError, match=r"returned|division"):
            cep.send("Tick", price=price)
    assert cep.iterate("s") == [] and len(cep.iterate("w")) == 3
    with pytest.raises(UsageError, match="EPL has a window of this name"):
        cep.window(name="length")(usual)
    with pytest.raises(UsageError, match="needs a parameter that is a list"):
        cep.window(lambda x: x)


@pytest.mark.parametrize(("answer", "remaining"), [(np.array([False, True]), [2.0]), (np.int64(1), [2.0])])
def test_a_window_may_answer_with_numbers_of_numpy(cep: Workbench, answer: Any, remaining: list[float]) -> None:
    @cep.window
    def some(prices: list[float]) -> Any:
        return None if len(prices) == 1 else answer

    cep.run("@name('s') select price from Tick#some(price)")
    for price in (1.0, 2.0):
        cep.send("Tick", price=price)
    assert [row["price"] for row in cep.iterate("s")] == remaining


# ---------------------------------------------------------------- data windows with a clock
def lasting(prices: list[float], *, clock: WindowClock) -> list[bool]:
    """Each event for as many seconds as its price says."""
    ends = [time + round(price * 1000) for time, price in zip(clock.times, prices, strict=True)]
    later = [end for end in ends if end > clock.now]
    if later:
        clock.call_at(min(later))
    return [end > clock.now for end in ends]


def test_a_window_is_called_at_the_time_that_it_asked_for(cep: Workbench, tmp_path: Path) -> None:
    cep.window(lasting)
    cep.run(
        "@name('s') select irstream price from Tick#lasting(price);"
        "@name('g') select symbol, count(*) as n from Tick#groupwin(symbol)#lasting(price) group by symbol"
    )
    deliveries: list[Any] = []
    cep.on("s", lambda delta: deliveries.append((delta.time, [r["price"] for r in delta.remove or ()])))
    for at, price in ((0, 3.0), (500, 1.0), (600, 9.0)):
        cep.advance(at)
        cep.send("Tick", symbol="ab"[price > 2], price=price)
    cep.save(tmp_path / "saved")
    cep.advance(1499)
    assert deliveries[3:] == []
    cep.advance(10_000)
    assert deliveries[3:] == [(10_000, [3.0, 1.0, 9.0])], "a jump calls once"
    other = Workbench()
    other.window(lasting)
    other.load(tmp_path / "saved")
    left: list[Any] = []
    other.on("s", lambda delta: left.append((delta.time, [r["price"] for r in delta.remove or ()])))
    for at in range(700, 10_000, 100):
        other.advance(at)
    assert left == [(1500, [1.0]), (3000, [3.0]), (9600, [9.0])]
    assert {r["symbol"]: r["n"] for r in other.iterate("g")} == {}


def test_a_window_with_a_clock_is_replayed_as_it_is_sent(cep: Workbench) -> None:
    frame = pd.DataFrame({"at": range(0, 9000, 300), "price": [number % 5 + 0.25 for number in range(30)]})
    benches = [Workbench(), Workbench()]
    deliveries: list[list[Any]] = [[], []]
    for bench, of_bench in zip(benches, deliveries, strict=True):
        bench.window(lasting)
        bench.define("T", frame, time="at")
        bench.run("@name('s') select irstream price, count(*) as n from T#lasting(price)")
        bench.on("s", lambda delta, of_bench=of_bench: of_bench.append((delta.time, delta.insert, delta.remove)))
    benches[0].replay({"T": frame}, until=20_000).run()
    for row in frame.to_dict("records"):
        benches[1].advance(row["at"], stepping=True)
        benches[1].send("T", **row)
    benches[1].advance(20_000, stepping=True)
    assert [delta for delta in deliveries[0] if delta[2]] and deliveries[0] == deliveries[1]


@pytest.mark.parametrize(
    ("time", "message"), [(0, r"call_at\(0\) is not after now, 0"), (1.5, "as a whole number, found 1.5")]
)
def test_a_wrong_time_is_told(cep: Workbench, time: Any, message: str) -> None:
    @cep.window
    def wrong(prices: list[float], *, clock: WindowClock) -> None:
        clock.call_at(time)

    cep.run("@name('s') select price from Tick#wrong(price)")
    with pytest.raises(CepbookError, match=message):
        cep.send("Tick", price=1.0)
    assert cep.iterate("s") == []


def test_what_fails_at_its_time_is_told_and_holds_what_it_held(cep: Workbench) -> None:
    @cep.window
    def late(prices: list[float], *, clock: WindowClock) -> None:
        if clock.now:
            raise ZeroDivisionError("late")
        clock.call_at(1000)

    cep.run("@name('s') select price from Tick#late(price)")
    cep.send("Tick", price=1.0)
    with pytest.raises(CepbookError, match="late"):
        cep.advance(1000)
    cep.advance(5000)
    assert [row["price"] for row in cep.iterate("s")] == [1.0]
