"""What Java's hashCode makes of values, as its documentation defines it, and the order of its hash tables."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from cepbook.lang.java.hashes import in_hash_order, java_hash


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("string", "hello", 99162322),
        ("string", "Aa", 2112),
        ("string", "BB", 2112),
        ("string", "€", 8364),
        ("int", -1, -1),
        ("long", 4294967296, 1),
        ("long", -1, 0),
        ("double", 1.0, 1072693248),
        ("float", 1.0, 1065353216),
        ("boolean", True, 1231),
        ("boolean", False, 1237),
        ("bigdecimal", Decimal("1.0"), 311),
        ("bigdecimal", Decimal("-1.5"), -464),  # 31 * -15 + 1
        ("bigdecimal", Decimal("5E+2"), 153),  # 31 * 5 - 2
        ("bigdecimal", Decimal(f"{2**96 + 1}"), 31 * (31**3 + 1)),  # more digits than the decimal context has
    ],
)
def test_hash_codes(name: str, value: Any, expected: int) -> None:
    assert java_hash(name, value) == expected


def test_a_table_shows_bucket_after_bucket() -> None:
    keys = [17, 3, 1, 16, 31, -1]
    assert in_hash_order({key: key for key in keys}) == [16, -1, 17, 1, 3, 31]
    assert in_hash_order({key: key for key in [*range(17, 0, -1), 33]})[:3] == [1, 33, 2]  # grown to 32 buckets


def test_several_properties_are_a_key() -> None:
    keys = [("b", 1), ("a", None), (None, 2)]
    assert in_hash_order({key: key for key in keys}) == [(None, 2), ("b", 1), ("a", None)]


def test_numbers_in_a_key_of_several_properties_are_hashed_as_integers_if_they_fit() -> None:
    """Integer.hashCode of -1 is -1, so (-1, 1) has the hash -30 and (0, 2) the hash 2; Long.hashCode of 2**32 is 1."""
    keys = [(-1, 1), (0, 2), (2**32, -30)]
    assert in_hash_order({key: key for key in keys}) == [(2**32, -30), (0, 2), (-1, 1)]


def test_without_a_known_hash_maps_keep_their_order() -> None:
    keys = [object(), 2, 1]
    assert in_hash_order({key: key for key in keys}) == keys


def test_large_maps_keep_their_order() -> None:
    keys = list(range(5000, 0, -1))
    assert in_hash_order({key: key for key in keys}) == keys
