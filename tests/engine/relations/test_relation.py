"""Relations: contents in order of arrival, indexes that follow each change."""

from __future__ import annotations

import math
import random
from operator import itemgetter

import pytest

from cepbook.engine.physical.access import plan_access
from cepbook.engine.relations.relation import CompositeIndex, HashIndex, Relation, SortedIndex
from cepbook.engine.relations.store_indexes import ColumnKey
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x


def _random_changes(seed: int) -> list[tuple[list[tuple], list[tuple]]]:
    draw = random.Random(seed)
    held: list[tuple] = []
    changes = []
    for number in range(300):
        entered = [(2 * number + i, draw.choice([None, 1, 2, 3, float("nan")])) for i in range(draw.randint(0, 2))]
        held += entered
        left = draw.sample(held, draw.randint(0, min(2, len(held))))
        held = [item for item in held if item not in left]
        changes.append((entered, left))
    return changes


def test_indexes_hold_what_the_rows_hold():
    by_hash, by_order = HashIndex(itemgetter(1)), SortedIndex(itemgetter(1))
    relation = Relation([by_hash, by_order])
    for entered, left in _random_changes(1):
        relation.change(entered, left)
        rows = list(relation.rows.values())
        assert sorted(i[0] for items in by_hash.table.values() for i in items.values()) == [i[0] for i in rows]
        assert all(by_hash.table.values()), "an empty key is forgotten"
        for low, high, with_low, with_high in ((1, 3, True, False), (None, 2, True, True), (2, None, False, True)):
            wanted = [
                item
                for item in rows
                if item[1] is not None
                and (low is None or item[1] > low or (with_low and item[1] == low))
                and (high is None or item[1] < high or (with_high and item[1] == high))
            ]
            assert list(by_order.within(low, high, with_low, with_high)) == sorted(wanted, key=lambda i: (i[1], i[0]))
    assert list(by_order.within(3, 1, True, True)) == []


def _ordinals(index: HashIndex) -> dict[str, list[int]]:
    return {str(key): list(items) for key, items in index.table.items()}


def test_a_row_of_the_same_key_takes_the_place_of_another():
    index = HashIndex(ColumnKey(("k",)))
    one, two, three = (1, {"k": "a"}), (2, {"k": "a"}), (3, {"k": float("nan")})
    index.change([one, two, three], [])
    index.change([(4, {"k": "a"})], [one])
    assert _ordinals(index) == {"a": [2, 4], "nan": [3]}
    index.replace(two, (2, {"k": "a", "x": 1}))
    assert list(index.table["a"].values()) == [(2, {"k": "a", "x": 1}), (4, {"k": "a"})], "in its place"
    index.change([(5, {"k": float("nan")})], [three])
    assert _ordinals(index) == {"a": [2, 4], "nan": [5]}, "all NaN are one key"
    index.change([(6, {"k": "b"})], [two])
    assert _ordinals(index) == {"a": [4], "nan": [5], "b": [6]}
    index.change([(7, {"k": "a"})], [(7, {"k": "a"})])
    assert _ordinals(index) == {"a": [4], "nan": [5], "b": [6]}, "an item that enters and leaves is not kept"


def test_an_index_that_comes_late_has_the_contents():
    relation = Relation()
    relation.change([(1, "a"), (2, "b"), (3, "a")], [(2, "b")])
    index = HashIndex(itemgetter(1))
    relation.add_index(index)
    assert index.table == {"a": {1: (1, "a"), 3: (3, "a")}}
    relation.leave((7, "never there"))
    assert list(relation.rows) == [1, 3]


def _prop(stream: int, name: str, type_: t.Type = t.INT) -> x.Prop:
    return x.Prop(type_, stream, name)


def test_access_takes_equalities_before_ranges():
    equal = x.ComparisonExpr(t.BOOLEAN, "=", _prop(0, "k"), _prop(1, "k"))
    above = x.ComparisonExpr(t.BOOLEAN, "<", _prop(0, "lo"), _prop(1, "v"))
    found = plan_access([above, equal], 1, {0})
    assert found.index == ("composite", (_prop(1, "k"), _prop(1, "v"))) and found.rest == (above,)
    assert plan_access([equal], 1, {0}).index == ("hash", (_prop(1, "k"),))
    ranged = plan_access([above, x.ComparisonExpr(t.BOOLEAN, "<=", _prop(1, "v"), _prop(0, "hi"))], 1, {0})
    assert ranged.range is not None and ranged.index == ("sorted", (_prop(1, "v"),)) and ranged.rest == ()
    assert (ranged.range.with_low, ranged.range.with_high) == (False, True)
    assert plan_access([equal], 1, ()).scans, "nothing is known of input 0"


def test_what_changes_from_time_to_time_is_no_key():
    later = x.ComparisonExpr(
        t.BOOLEAN, "=", x.Arith(t.INT, "+", _prop(1, "k"), x.VariableRead(t.INT, "v")), _prop(0, "k")
    )
    assert plan_access([later], 1, {0}).scans
    known = x.ComparisonExpr(t.BOOLEAN, "=", _prop(1, "k"), x.VariableRead(t.INT, "v"))
    assert not plan_access([known], 1, ()).scans, "a variable is read when the index is looked into"


def test_a_composite_index_finds_what_is_in_the_range_and_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompositeIndex, "MANY", 4)
    draw, index, held = random.Random(1), CompositeIndex(itemgetter(1, 2)), dict[int, tuple]()
    for ordinal in range(400):
        held[ordinal] = (ordinal, draw.choice("ab"), draw.choice([None, math.nan, 0, 1, 2, 3]))
        index.enter(held[ordinal])
        while len(held) > draw.choice([0, 5, 30, 30]):
            index.leave(held.pop(draw.choice(list(held))))
        low, high = draw.choice([None, 0, 2]), draw.choice([1, 3])
        for key in "ab":
            same = [item for item in held.values() if item[1] == key]
            within = [item for item in same if item[2] in range(4) and (low or 0) <= item[2] <= high]
            few = key in index.bands and 4 * len(within) <= len(same)
            assert list(index.within(key, low, high)) == (within if few else same)
        assert all(len(index.table[key]) > 2 for key in index.bands) and all(index.table.values())
    assert index.within("c", None, 1) == ()
