"""Java's ``hashCode`` of values, and the order in which its hash maps iterate over their keys."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from cepbook.lang.java.numbers import java_text, wrap

_INT, _LONG = 32, 64
_SHORT = 64  # characters
_SMALLEST = 16  # buckets of a table
_MOST = 4096  # keys
_Value = TypeVar("_Value")


def java_hash(name: str, value: Any) -> int:
    """Return ``hashCode`` of a value that is not null; the type `name` tells long from int and float from double."""
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, str):
        return _of_short_text(value) if len(value) <= _SHORT else _of_text(value)
    if name == "long":
        return _folded(value)
    if name == "biginteger":
        return _of_big(value)
    if isinstance(value, int):
        return wrap(value, _INT)
    if isinstance(value, float):
        if name == "float":
            return int(struct.unpack(">i", struct.pack(">f", value))[0])
        return _folded(struct.unpack(">q", struct.pack(">d", value))[0])
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        scale = -exponent if isinstance(exponent, int) else 0
        return wrap(31 * _of_big(int(value.scaleb(scale))) + scale, _INT)
    if isinstance(value, dict):
        return wrap(sum(java_hash("", k) ^ java_hash("", v) for k, v in value.items() if v is not None), _INT)
    if isinstance(value, (list, tuple)):
        return _combined([0 if v is None else java_hash("", v) for v in value], 1)
    return java_hash("string", java_text(value))


def _of_text(value: str) -> int:
    if value.isascii():
        return _combined(value.encode(), 0)
    data = value.encode("utf-16-be")
    return _combined(struct.unpack(f">{len(data) // 2}H", data), 0)


_of_short_text = lru_cache(4096)(_of_text)  # keys repeat


def _combined(hashes: Sequence[int], start: int) -> int:
    combined = start
    for code in hashes:
        combined = (31 * combined + code) & 0xFFFFFFFF
    return wrap(combined, _INT)


def _folded(value: int) -> int:
    bits = value & ((1 << _LONG) - 1)
    return wrap(bits ^ (bits >> 32), _INT)


def _of_big(value: int) -> int:
    magnitude = abs(value)
    words = [(magnitude >> shift) & 0xFFFFFFFF for shift in range(0, max(magnitude.bit_length(), 1), 32)]
    code = _combined(words[::-1], 0)
    return wrap(-code if value < 0 else code, _INT)


def in_hash_order(by_key: Mapping[Any, _Value]) -> Sequence[_Value]:
    """Return the values of a map in the iteration order of ``java.util.HashMap``.

    That is bucket after bucket, and within a bucket in order of insertion. Maps whose keys have no known hash (events,
    dates) or that are large keep their own order. The table has room for a third more keys than there are; in Java a
    table from which keys were removed may be larger.
    """
    if not 1 < len(by_key) <= _MOST:
        return list(by_key.values())
    buckets = _SMALLEST
    while 4 * len(by_key) > 3 * buckets:
        buckets *= 2
    mask = buckets - 1
    try:
        buckets_of_keys = [_spread(key) & mask for key in by_key]
    except _UnknownHash:
        return list(by_key.values())
    values = list(by_key.values())
    return [values[n] for n in sorted(range(len(values)), key=buckets_of_keys.__getitem__)]


class _UnknownHash(Exception):
    """The type of a key has no known hash."""


def _spread(key: Any) -> int:
    """Fold the upper half of a key's hash into the lower half, which chooses the bucket."""
    code = _of_key(key) & 0xFFFFFFFF
    return code ^ (code >> 16)


def _of_key(key: Any) -> int:
    kind = type(key)
    if kind is int:
        return _folded(key)  # a negative int has the bucket of the long
    if kind is tuple:  # of several properties
        return _combined([_of_key(item) for item in key], 0)
    if key is None:
        return 0
    if kind in _KNOWN:
        return java_hash("", key)
    raise _UnknownHash


_KNOWN = (str, bool, float, Decimal)
