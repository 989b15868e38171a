"""Methods of arrays against plain Python, on random lists with nulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.runtime import Runtime

Items = list[Any]
Reference = Callable[[Items, Any], Any]


def known(values: Items) -> Items:
    return [v for v in values if v is not None]


def rank(value: Any) -> tuple[int, Any]:
    """Null first, NaN last."""
    return (0, 0) if value is None else (2, 0) if value != value else (1, value)


def wrapped(total: int) -> int:
    return (total + 2**31) % 2**32 - 2**31


def above(v: Any, k: Any) -> bool | None:
    return None if v is None or k is None else v > k


def leading(values: Items, k: Any) -> Items:
    found = []
    for v in values:
        if above(v, k) is False:
            break
        found.append(v)
    return found


def unique(values: Items) -> Items:
    found: Items = []
    for v in values:
        if v not in found:
            found.append(v)
    return found


def counted(values: Items, pick: Callable[..., Any]) -> Any:
    return pick(unique(values), key=values.count) if values else None


def extreme(values: Items, pick: Callable[..., Any]) -> Any:
    return pick(known(values), key=rank, default=None)


def grouped(values: Items) -> dict[Any, Items]:
    return {key: [v for v in values if half(v) == key] for key in unique([half(v) for v in values])}


def half(v: Any) -> Any:
    return None if v is None else v % 3 if v >= 0 else -(-v % 3)


def fitting(values: Items, v: Any) -> int:
    """How many equal `v` or, with a null, may."""
    return len(values) if v is None else values.count(v) + values.count(None)


ANY: dict[str, Reference] = {
    "xs.where(v => v > k)": lambda xs, k: [v for v in xs if above(v, k) is not False],
    "xs.where((v, i) => i != 1)": lambda xs, k: [v for i, v in enumerate(xs) if i != 1],
    "xs.where((v, i, s) => i < s - 1)": lambda xs, k: xs[:-1],
    "xs.countOf()": lambda xs, k: len(xs),
    "xs.countOf(v => v > k)": lambda xs, k: sum(above(v, k) is not False for v in xs),
    "xs.firstOf()": lambda xs, k: xs[0] if xs else None,
    "xs.lastOf()": lambda xs, k: xs[-1] if xs else None,
    "xs.firstOf(v => v > k)": lambda xs, k: next((v for v in xs if above(v, k) is not False), None),
    "xs.lastOf(v => v > k)": lambda xs, k: next((v for v in reversed(xs) if above(v, k) is not False), None),
    "xs.anyOf(v => v > k)": lambda xs, k: any(above(v, k) for v in xs),
    "xs.allOf(v => v > k)": lambda xs, k: all(above(v, k) for v in xs),
    "xs.reverse()": lambda xs, k: xs[::-1],
    "xs.take(2)": lambda xs, k: xs[:2],
    "xs.take(-1)": lambda xs, k: [],
    "xs.takeLast(2)": lambda xs, k: xs[-2:],
    "xs.takeWhile(v => v > k)": lambda xs, k: leading(xs, k),
    "xs.takeWhileLast(v => v > k)": lambda xs, k: leading(xs[::-1], k)[::-1],
    "xs.takeWhileLast((v, i) => i < 2)": lambda xs, k: xs[-2:],
    "xs.distinctOf()": lambda xs, k: unique(xs),
    "xs.mostFrequent()": lambda xs, k: counted(xs, max),
    "xs.leastFrequent()": lambda xs, k: counted(xs, min),
    "xs.min()": lambda xs, k: extreme(xs, min),
    "xs.max()": lambda xs, k: extreme(xs, max),
    "xs.minBy(v => v)": lambda xs, k: extreme(xs, min),
    "xs.orderBy()": lambda xs, k: sorted(xs, key=rank),
    "xs.orderByDesc()": lambda xs, k: sorted(xs, key=rank, reverse=True),
    "xs.orderBy((v, i) => 0 - i)": lambda xs, k: xs[::-1],
    "xs.selectFrom(v => v)": lambda xs, k: known(xs),
    "xs.arrayOf(v => v)": lambda xs, k: xs,
    "xs.selectFrom((v, i, s) => s * 10 + i)": lambda xs, k: [len(xs) * 10 + i for i in range(len(xs))],
    "xs.union(ys)": lambda xs, k: xs + ys_of(xs),
    "xs.intersect(ys)": lambda xs, k: [v for v in xs if v in ys_of(xs)] if ys_of(xs) else xs,
    "xs.except(ys)": lambda xs, k: [v for v in xs if v not in ys_of(xs)],
    "xs.sequenceEqual(ys)": lambda xs, k: xs == ys_of(xs),
    "xs.orderBy().sequenceEqual(xs.reverse().orderBy())": lambda xs, k: True,
    "xs.toMap((v, i) => i, v => v)": lambda xs, k: dict(enumerate(xs)),
    "xs.size()": lambda xs, k: len(xs),
    "xs.get(1)": lambda xs, k: xs[1] if len(xs) > 1 else None,
    "xs.where(v => xs.countOf(w => w = v) > 1)": lambda xs, k: [v for v in xs if fitting(xs, v) > 1],
}
NUMBERS: dict[str, Reference] = {
    "xs.sumOf()": lambda xs, k: wrapped(sum(known(xs))) if known(xs) else None,
    "xs.sumOf(v => v * 2)": lambda xs, k: wrapped(sum(v * 2 for v in known(xs))) if known(xs) else None,
    "xs.average()": lambda xs, k: sum(map(float, known(xs))) / len(known(xs)) if known(xs) else None,
    "xs.aggregate(7, (r, v) => r - v)": lambda xs, k: None if None in xs else wrapped(7 - sum(xs)),
    "xs.aggregate(0, (r, v, i, s) => r + i * s)": lambda xs, k: sum(i * len(xs) for i in range(len(xs))),
    "xs.groupBy(v => v % 3)": lambda xs, k: grouped(xs),
    "xs.groupBy(v => v % 3).size()": lambda xs, k: len(grouped(xs)),
    "xs.distinctOf(v => v % 3)": lambda xs, k: [group[0] for group in grouped(xs).values()],
    "xs.maxBy(v => v % 3)": lambda xs, k: next(
        (v for v in known(xs) if half(v) == max(map(half, known(xs)))), None
    ),
}  # fmt: skip


def ys_of(xs: Items) -> Items:
    """The second list that stands beside the first: every other element, then the first one again."""
    return [*xs[::2], *xs[:1]]


def runtime_of(type_: str, cases: dict[str, Reference]) -> tuple[Runtime, list[Any]]:
    runtime, rows = Runtime(), list[Any]()
    runtime.deploy(f"create schema P(xs {type_}[], ys {type_}[], k {type_})")
    columns = ", ".join(f"{epl} as c{number}" for number, epl in enumerate(cases))
    (statement,) = runtime.deploy(f"@name('s') select {columns} from P").statements
    statement.add_listener(lambda delta: rows.extend(delta.insert or ()))
    return runtime, rows


VALUES = {
    "int": st.one_of(st.none(), st.integers(-4, 4), st.integers(-(2**31), 2**31 - 1)),
    "double": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.5, 1.0])),
    "string": st.one_of(st.none(), st.text("abAB", max_size=2)),
}


@pytest.mark.parametrize("type_", VALUES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_methods_are_those_of_python(type_: str, data: st.DataObject) -> None:
    cases = {**ANY, **NUMBERS} if type_ == "int" else ANY
    if type_ not in ENGINES:
        ENGINES[type_] = runtime_of(type_, cases)
    runtime, rows = ENGINES[type_]
    xs = data.draw(st.lists(VALUES[type_], max_size=6))
    k = data.draw(VALUES[type_])
    rows.clear()
    given_ = {"xs": list(xs), "ys": ys_of(xs), "k": k}
    runtime.send("P", given_)
    for (epl, reference), found in zip(cases.items(), rows[0].values(), strict=True):
        wanted = reference(xs, k)
        same = math.isclose(found, wanted) if isinstance(wanted, float) and wanted is not None else found == wanted
        assert same, f"{epl} of {xs} with k = {k}: {found}, not {wanted}"
    assert given_ == {"xs": xs, "ys": ys_of(xs), "k": k}, "what was sent stays as it was"


ENGINES: dict[str, tuple[Runtime, list[Any]]] = {}


def test_nan_is_one_value_and_the_largest() -> None:
    nan = math.nan
    cases: dict[str, Reference] = {
        "xs.distinctOf()": lambda xs, k: [nan, 1.0],
        "xs.max()": lambda xs, k: nan,
        "xs.min()": lambda xs, k: 1.0,
        "xs.orderBy()": lambda xs, k: [None, 1.0, nan, nan],
        "xs.orderByDesc()": lambda xs, k: [nan, nan, 1.0, None],
        "xs.except({1.0})": lambda xs, k: [nan, nan, None],
        "xs.mostFrequent()": lambda xs, k: nan,
    }
    runtime, rows = runtime_of("double", cases)
    runtime.send("P", {"xs": [nan, 1.0, float("nan"), None], "ys": [], "k": None})
    wanted = {f"c{number}": reference([], None) for number, reference in enumerate(cases.values())}
    wanted["c0"] = [nan, 1.0, None]
    assert repr(rows[0]) == repr(wanted)
