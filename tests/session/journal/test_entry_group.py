"""Entries as bytes and back: any mixture of types, nulls and values that the forms of columns do not hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepbook.errors import JournalError, SnapshotError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import BOOLEAN, DOUBLE, LONG, MAP, STRING
from cepbook.session.journal.entry_group import CLOCK, STEPS, entry_columns, pack_entries, unpack_entries

TYPES = {
    "A": EventType("A", {"text": STRING, "whole": LONG, "part": DOUBLE, "yes": BOOLEAN}),
    "B": EventType("B", {"any": MAP, "text": STRING}),
    "None": EventType("None", {}),
}
COLUMNS = {name: entry_columns(event_type) for name, event_type in TYPES.items()}
texts = st.none() | st.text(max_size=4) | st.sampled_from(["", "\0", "a\0b", "\ud800"])
wholes = st.none() | st.integers() | st.sampled_from([2**63 - 1, 2**63, -(2**63)])
fractions = st.none() | st.floats()
truths = st.none() | st.booleans()
maps = st.none() | st.dictionaries(st.text(), st.integers())
of_a = st.tuples(texts, wholes, fractions, truths).map(
    lambda values: dict(zip(TYPES["A"].properties, values, strict=True))
)
of_b = st.tuples(maps, texts).map(lambda values: dict(zip(TYPES["B"].properties, values, strict=True)))
times = st.integers(0, 2**50)
entry = st.one_of(
    st.tuples(st.just("A"), of_a),
    st.tuples(st.just("B"), of_b),
    st.tuples(st.just("None"), st.just({})),
    st.tuples(st.sampled_from([CLOCK, STEPS]), times),
)


def read_again(entries: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return unpack_entries(*written(entries))


def written(entries: list[tuple[str, Any]]) -> tuple[list[dict[str, Any]], Iterator[memoryview]]:
    batches = pack_entries([item for pair in entries for item in pair], COLUMNS)
    heads = json.loads(json.dumps([batch.header for batch in batches]))
    return heads, iter([memoryview(block) for batch in batches for block in batch.blocks])


@given(st.lists(entry, max_size=30))
def test_entries_come_back_in_order_with_equal_values_of_equal_types(entries: list[tuple[str, Any]]) -> None:
    assert repr(read_again(entries)) == repr(entries)


@given(st.lists(of_a, min_size=1, max_size=30))
def test_events_of_one_type_have_no_positions(events: list[dict[str, Any]]) -> None:
    heads, _ = written([("A", event) for event in events])
    assert [column[0] for column in heads[0]["columns"]] == ["text", "whole", "part", "yes"]
    assert repr(read_again([("A", event) for event in events])) == repr([("A", event) for event in events])


def test_numbers_and_texts_without_nulls_take_no_room_in_the_header() -> None:
    events = [{"text": f"s{n}", "whole": n, "part": n / 2, "yes": n % 2 == 0} for n in range(1_000)]
    heads, blocks = written([("A", event) for event in events])
    texts_size = sum(len(event["text"]) for event in events) + 999
    assert len(json.dumps(heads)) < 250
    assert [len(block) for block in blocks] == [texts_size, 8_000, 8_000, 1_000]


def test_the_bits_of_a_fraction_are_kept() -> None:
    values = [math.nan, -0.0, 0.1, 5e-324, -math.inf]
    events = [{"text": "", "whole": 0, "part": value, "yes": True} for value in values]
    again = [event["part"] for _, event in read_again([("A", event) for event in events])]
    assert [value.hex() for value in again] == [value.hex() for value in values]


def test_an_object_that_nothing_holds_is_refused() -> None:
    with pytest.raises(JournalError, match=r"a journal cannot hold a value of type builtins\.object"):
        pack_entries(["B", {"any": object(), "text": "a"}], COLUMNS)


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.update(count=3),
        lambda head: head.update(count=-1),
        lambda head: head.update(type="B", columns=head["columns"][1:]),
        lambda head: head["columns"][0].__setitem__(1, "<i8"),
        lambda head: head["columns"][1].__setitem__(1, "x"),
        lambda head: head["columns"][1].__setitem__(1, "<i8,<i8"),
        lambda head: head["columns"][1].__setitem__(1, "|i1"),
        lambda head: head["columns"][1].__setitem__(2, "present"),
        lambda head: head["columns"][1].__setitem__(2, "codes"),
        lambda head: head["columns"][1].__setitem__(slice(2, 4), ["present", [7, 8]]),
        lambda head: head["columns"][1].__setitem__(slice(2, 4), ["present", [0]]),
        lambda head: head["columns"][1].__setitem__(2, "graph"),
        lambda head: head["columns"][1].__setitem__(slice(2, 4), ["graph", [[0], [["list", 1]]]]),
        lambda head: head["columns"][1].__setitem__(slice(2, 4), ["steps", 2**70]),
        lambda head: head.pop("columns"),
        lambda head: head["columns"].append(5),
        lambda head: head["columns"].append(["more", "<i8", "values", None]),
    ],
)
def test_a_header_that_does_not_fit_its_blocks_is_refused(change: Any) -> None:
    heads, blocks = written([("A", {"text": "ab", "whole": 1, "part": 0.5, "yes": True})] * 2)
    change(heads[0])
    with pytest.raises(SnapshotError, match="the journal is damaged"):
        unpack_entries(heads, blocks)
