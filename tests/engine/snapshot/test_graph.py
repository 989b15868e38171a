"""State as a table of nodes: what is read is what was written, shared where that was shared."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.expressions.hashable import hashable
from cepbook.engine.expressions.sort_keys import descending_key
from cepbook.engine.snapshot.value_graph import GraphReader, GraphWriter, UnsavableValue
from cepbook.engine.state import SortedList, StateMarker
from cepbook.errors import SnapshotError


def there_and_back(value: Any) -> Any:
    writer = GraphWriter(lambda part: "print" if part is print else None)
    written = writer.value(value)
    nodes, classes, parts = json.loads(json.dumps([writer.nodes, writer.classes, writer.parts]))
    return GraphReader(nodes, classes, [{"print": print}[path] for path in parts]).value(
        json.loads(json.dumps(written))
    )


PLAIN = [
    *(None, True, False, 0, -1, 1 << 62, (1 << 62) + 1, -(1 << 5000), 0.1, -0.0, 1.0, math.inf, -math.inf),
    *("", "a\x00b\ud800\n", b"\x00\xff", Decimal("1.50"), Decimal("NaN"), date(2024, 2, 29), time(1, 2, 3, 4)),
    datetime(2024, 1, 1, 12),
    datetime(2024, 1, 1, 12, tzinfo=UTC),
    datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    timedelta(-1, 5, 7),
    StateMarker.EMPTY,
    *([], [1, [2]], (), (1, (2, "x")), {}, {"a": {"b": [1.5]}}, {1: "a", None: "b", (1, 2): "c"}, set(), {1, "a"}),
    *(deque(), deque([1, 2], maxlen=2), OrderedDict([("b", 1), ("a", 2)]), SortedList([3, 1, 2])),
    hashable({"a": [1, {"b": 2}]}),
]


def _named(value: Any) -> str:
    """The same in every process, whatever order a set shows."""
    return type(value).__name__ if isinstance(value, set) else repr(value)


@pytest.mark.parametrize("value", PLAIN, ids=_named)
def test_plain_values(value: Any) -> None:
    found = there_and_back(value)
    assert type(found) is type(value) and repr(found) == repr(value)
    assert getattr(found, "maxlen", None) == getattr(value, "maxlen", None)


def test_all_nan_are_the_key_that_they_were() -> None:
    found = there_and_back({math.nan: 1})
    assert found[math.nan] == 1


def test_order_of_dicts_and_what_is_shared() -> None:
    event = {"b": 1, "a": 2}
    found = there_and_back({"x": [event], "y": (event, event), "z": event})
    assert found["x"][0] is found["y"][0] is found["y"][1] is found["z"]
    assert list(found["z"]) == ["b", "a"]


def test_circles() -> None:
    state: list[Any] = []
    partition = ContextPartition(7, "C", {"key1": "k"}, "k")
    partition.states = [state, state]
    state += [partition, (state, partition), {"me": state}]
    found = there_and_back(state)
    assert found[0].states[0] is found is found[1][0] is found[2]["me"]
    assert found[0].id == 7 and found[0].correlation_keys is None and found[1][1] is found[0]


@pytest.mark.histories
def test_long_chains_do_not_nest() -> None:
    deep: Any = None
    for i in range(100_000):
        deep = [i, deep] if i % 2 else (i, deep)
    found = there_and_back(deep)
    for i in reversed(range(100_000)):
        assert found[0] == i
        found = found[1]


class _CountedNode(list[Any]):
    """A node that counts how many of its elements are read at once."""

    reads = 0

    def __iter__(self) -> Iterator[Any]:
        _CountedNode.reads += len(self)
        return super().__iter__()

    def __getitem__(self, place: Any) -> Any:
        _CountedNode.reads += len(self) if isinstance(place, slice) else 0
        return super().__getitem__(place)


@pytest.mark.parametrize("outer_first", [True, False])
def test_a_wide_tuple_is_read_a_few_times(outer_first: bool) -> None:
    """Not once for each tuple inside it: with 8,000 of them loading took 14 seconds."""
    inner = [(i,) for i in range(1000)]
    value = [tuple(inner), *inner] if outer_first else [*inner, tuple(inner)]
    writer = GraphWriter(lambda part: None)
    written = writer.value(value)
    _CountedNode.reads = 0
    found = GraphReader([_CountedNode(node) for node in writer.nodes]).value(written)
    assert found == value and found[0 if outer_first else -1][0] is found[1 if outer_first else 0]
    assert _CountedNode.reads <= 6 * sum(map(len, writer.nodes))


@pytest.mark.parametrize("nodes", [[["tuple", [0]]], [["tuple", [1]], ["tuple", 1, [0]]]])
def test_a_tuple_within_itself_is_refused(nodes: list[Any]) -> None:
    with pytest.raises(ValueError, match="holds itself"):
        GraphReader(nodes)


def test_a_container_of_an_object_of_a_user_is_refused_whatever_its_module_is_called() -> None:
    user = type("User", (), {"__hash__": lambda self: pytest.fail("the method of a user was called")})
    for module in ("mine", "collections_of_mine", "builtins2"):
        user.__module__ = module
        with pytest.raises(TypeError, match="no element of a container"):
            GraphReader([["set", [1]], ["part", 0]], (), [user()])


def test_sorted_with_keys_that_are_objects() -> None:
    entries = SortedList((descending_key(word), i) for i, word in enumerate("bcab"))
    found = there_and_back({"s": entries, "first": entries[0]})
    assert [(entry[0][1].component, entry[1]) for entry in found["s"]] == [("c", 1), ("b", 0), ("b", 3), ("a", 2)]
    assert found["first"] is found["s"][0]
    found["s"].remove((descending_key("a"), 2))


def test_parts_of_the_program_are_named() -> None:
    assert there_and_back([print, (print,)]) == [print, (print,)]


STRANGE = "object lambda function complex frozenset own".split()  # names that are the same in every process


@pytest.mark.parametrize("value", [object(), lambda: 0, len, 1j, frozenset(), type("Own", (int,), {})(3)], ids=STRANGE)
def test_what_is_not_known_is_refused(value: object) -> None:
    with pytest.raises(UnsavableValue, match="a value of type"):
        there_and_back({"a": [value]})


def test_classes_of_another_version() -> None:
    with pytest.raises(SnapshotError, match=r"no state `rows\.gone\.Gone`"):
        GraphReader([["state", 0]], [("rows.gone.Gone", ())])
    with pytest.raises(SnapshotError, match="has other fields"):
        GraphReader([["state", 0, 1]], [("expressions.sort_keys.DescendingKey", ("parts",))])
