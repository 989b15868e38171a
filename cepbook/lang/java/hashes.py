"""Java's ``hashCode`` of values, and the order in which its hash maps iterate over their keys.

The hash contexts use `java_hash`, so partitions are those of the reference. Tables and `#unique` use `in_hash_order`.
To add a type, add a branch to `java_hash`; if it may be a key of a map, add its Python class to `_KEY_TYPES` too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from cepbook.lang.java.numbers import java_text, wrap

_INT_BITS, _LONG_BITS = 32, 64
_MAX_CACHED_LENGTH = 64  # characters; longer strings are hashed without the cache
_CACHE_SIZE = 4096
_INITIAL_BUCKETS = 16
_MAX_ORDERED_KEYS = 4096  # the order of a larger map is not worth the time; `_hash_of_key` relies on this limit
_Value = TypeVar("_Value")


def java_hash(name: str, value: Any) -> int:
    """Return ``hashCode`` of a value that is not null.

    `name` is the EPL type. It is empty where the type is not known (keys, elements and values of collections): then an
    int is hashed as Integer and a float as Double. Dates have the hash of their text, which is stable but not Java's.
    """
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, str):
        return _hash_of_short_text(value) if len(value) <= _MAX_CACHED_LENGTH else _hash_of_text(value)
    if name == "long":
        return _hash_of_long(value)
    if name == "biginteger":
        return _hash_of_biginteger(value)
    if isinstance(value, int):
        return wrap(value, _INT_BITS)
    if isinstance(value, float):
        if name == "float":
            return int(struct.unpack(">i", struct.pack(">f", value))[0])
        return _hash_of_long(struct.unpack(">q", struct.pack(">d", value))[0])
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        scale = -exponent if isinstance(exponent, int) else 0
        unscaled = int(Decimal((sign, digits, 0)))  # `scaleb` would round to the precision of the decimal context
        return wrap(31 * _hash_of_biginteger(unscaled) + scale, _INT_BITS)
    if isinstance(value, dict):  # a java.util.Map; a null value is the same as no entry
        entries = ((key, item) for key, item in value.items() if item is not None)
        return wrap(sum(java_hash("", key) ^ java_hash("", item) for key, item in entries), _INT_BITS)
    if isinstance(value, (list, tuple)):  # a java.util.List, which begins with 1
        return _combined([0 if item is None else java_hash("", item) for item in value], 1)
    return java_hash("string", java_text(value))


def _hash_of_text(value: str) -> int:
    if value.isascii():
        return _combined(value.encode(), 0)
    data = value.encode("utf-16-be")
    return _combined(struct.unpack(f">{len(data) // 2}H", data), 0)


_hash_of_short_text = lru_cache(_CACHE_SIZE)(_hash_of_text)  # keys repeat


def _combined(hashes: Sequence[int], start: int) -> int:
    combined = start
    for code in hashes:
        combined = (31 * combined + code) & 0xFFFFFFFF
    return wrap(combined, _INT_BITS)


def _hash_of_long(value: int) -> int:
    bits = value & ((1 << _LONG_BITS) - 1)
    return wrap(bits ^ (bits >> 32), _INT_BITS)


def _hash_of_biginteger(value: int) -> int:
    magnitude = abs(value)
    words = [(magnitude >> shift) & 0xFFFFFFFF for shift in range(0, max(magnitude.bit_length(), 1), 32)]
    code = _combined(words[::-1], 0)
    return wrap(-code if value < 0 else code, _INT_BITS)


def in_hash_order(by_key: Mapping[Any, _Value]) -> Sequence[_Value]:
    """Return the values of a map in the iteration order of ``java.util.HashMap``.

    That is bucket after bucket, and within a bucket in order of insertion. Maps of more than 4096 keys, and maps with a
    key whose hash is not known (an event, a date), keep the order of insertion.

    The number of buckets is the smallest power of two, at least 16, that the keys fill to at most 75 %. Java never
    shrinks a table, so its order may differ after keys were removed.
    """
    if not 1 < len(by_key) <= _MAX_ORDERED_KEYS:
        return list(by_key.values())
    buckets = _INITIAL_BUCKETS
    while 4 * len(by_key) > 3 * buckets:
        buckets *= 2
    mask = buckets - 1
    try:
        buckets_of_keys = [_spread(key) & mask for key in by_key]
    except _UnknownHash:
        return list(by_key.values())
    values = list(by_key.values())
    return [values[n] for n in sorted(range(len(values)), key=buckets_of_keys.__getitem__)]  # the sort is stable


class _UnknownHash(Exception):
    """The type of a key has no known hash."""


def _spread(key: Any) -> int:
    """Return the hash of a key with its upper half folded into its lower half, as ``HashMap`` chooses buckets."""
    code = _hash_of_key(key) & 0xFFFFFFFF
    return code ^ (code >> 16)


def _hash_of_key(key: Any) -> int:
    """Return ``hashCode`` of a key, whose EPL type is not known here.

    An int of up to 32 bits is hashed as Integer, a larger one as Long. The hashes of an Integer and a Long differ only
    if the value is negative. For a single key that does not matter: after `_spread` the lower 16 bits are equal, and a
    table has fewer than 2**16 buckets. In a key of several properties, a negative long may be put in the wrong bucket.
    Columns of ints are likelier there than columns of longs with negative values.
    """
    kind = type(key)
    if kind is int:
        code = wrap(key, _INT_BITS)
        return code if code == key else _hash_of_long(key)
    if kind is tuple:  # a key of several properties; unlike a list it begins with 0
        return _combined([_hash_of_key(item) for item in key], 0)
    if key is None:
        return 0
    if kind in _KEY_TYPES:
        return java_hash("", key)
    raise _UnknownHash


_KEY_TYPES = (str, bool, float, Decimal)  # events are dicts that are compared by identity, so no dict is here
