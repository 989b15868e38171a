"""The hash functions against values that Java and zlib are known to give."""

from __future__ import annotations

import zlib
from decimal import Decimal
from typing import Any

import pytest

from cepbook.engine.contexts.hashing import bucket, crc32, hash_code
from cepbook.lang import types as t


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (t.STRING, "abc", 96354),
        (t.STRING, "", 0),
        (t.STRING, "polygenelubricants", -2147483648),
        (t.STRING, "\U0001d11e", 55348 * 31 + 56606),  # two UTF-16 units
        (t.CHAR, "a", 97),
        (t.INT, -7, -7),
        (t.SHORT, 300, 300),
        (t.LONG, 1 << 32, 1),
        (t.LONG, -1, 0),
        (t.DOUBLE, 1.5, 1073217536),
        (t.DOUBLE, 0.0, 0),
        (t.FLOAT, 1.0, 1065353216),
        (t.BOOLEAN, True, 1231),
        (t.BOOLEAN, False, 1237),
        (
            t.BIGINTEGER,
            10**20,
            1882487352,
        ),  # of its 32-bit words 5, 1808227885, 1661992960, as in 31 * (31 * 5 + …) + …
        (t.BIGDECIMAL, Decimal("1.50"), 31 * 150 + 2),
        (t.STRING, None, 0),
    ],
)
def test_hash_code(type_: t.Type, value: Any, expected: int) -> None:
    assert hash_code([type_], [value]) == expected


def test_hash_code_of_several_skips_nulls() -> None:
    types = [t.INT, t.STRING, t.BOOLEAN]
    assert hash_code(types, [1, "a", True]) == (31 + 97) * 31 + 1231
    assert hash_code(types, [1, None, True]) == 31 + 1231
    assert hash_code(types, [None, None, None]) == 0


@pytest.mark.parametrize(
    ("type_", "value", "data"),
    [
        (t.STRING, "123456789", b"123456789"),
        (t.STRING, "ä", b"\xc3\xa4"),
        (t.BYTE, -1, b"\xff"),
        (t.SHORT, 300, b"\x01\x2c"),
        (t.INT, 65536, b"\0\1\0\0"),
        (t.LONG, -1, b"\xff" * 8),
        (t.FLOAT, 1.0, b"\x3f\x80\0\0"),
        (t.DOUBLE, 1.5, b"\x3f\xf8" + b"\0" * 6),
        (t.BOOLEAN, True, b"\1"),
        (t.BIGINTEGER, 12, b"12"),
    ],
)
def test_crc32(type_: t.Type, value: Any, data: bytes) -> None:
    assert crc32([type_], [value]) == zlib.crc32(data)
    assert crc32([type_], [None]) == 0


def test_crc32_is_the_usual_one() -> None:
    assert crc32([t.STRING], ["123456789"]) == 0xCBF43926


def test_crc32_of_several_has_the_lengths_of_strings() -> None:
    assert crc32([t.STRING, t.INT, t.STRING], ["ab", 1, "c"]) == zlib.crc32(b"\0\2ab\0\0\0\1\0\1c")
    assert crc32([t.STRING, t.INT], [None, 1]) == zlib.crc32(b"\0\0\0\1")
    assert crc32([t.STRING, t.STRING], ["", ""]) == zlib.crc32(b"\0\0\0\0")
    assert crc32([t.STRING, t.STRING], [None, None]) == 0


def test_buckets_have_no_sign() -> None:
    assert [bucket(h, 4) for h in (-5, -4, 0, 5, None, True)] == [1, 0, 0, 1, 0, 1]
    assert bucket(0xFFFFFFFF, 1000) == 295
