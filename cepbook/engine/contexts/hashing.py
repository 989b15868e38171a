"""Hash functions of ``coalesce by``, compatible with Java, so that partitions are those of the reference.

Recorded: null is skipped, and alone gives 0; if there are several strings, the CRC covers the length before each.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cepbook.lang.java.hashes import java_hash
from cepbook.lang.java.numbers import java_text, wrap
from cepbook.lang.types import Type

_INT = 32
_CHAR = bytes.fromhex(  # Java's serialization of java.lang.Character
    "aced0005737200136a6176612e6c616e672e436861726163746572348b47d96b1a267802000143000576616c75657870"
)
_BYTES: dict[str, Callable[[Any], bytes]] = {
    "byte": lambda v: struct.pack(">b", v),
    "short": lambda v: struct.pack(">h", v),
    "int": lambda v: struct.pack(">i", v),
    "long": lambda v: struct.pack(">q", v),
    "float": lambda v: struct.pack(">f", v),
    "double": lambda v: struct.pack(">d", v),
    "boolean": lambda v: b"\1" if v else b"\0",
    "string": lambda v: v.encode(),
    "char": lambda v: _CHAR + struct.pack(">H", ord(v)),
}


def crc32(types: Sequence[Type], values: Sequence[Any]) -> int:
    """Return ``consistent_hash_crc32``: the CRC of the values' bytes, big-endian; of their text for types without fixed
    bytes.
    """
    several = len(types) > 1
    encoded = b""
    for type_, value in zip(types, values, strict=True):
        if value is None:
            continue
        encode = _BYTES.get(type_.name)
        data = java_text(value).encode() if encode is None else encode(value)
        if several and type_.name == "string":
            data = struct.pack(">H", len(data) & 0xFFFF) + data
        encoded += data
    return zlib.crc32(encoded)


def hash_code(types: Sequence[Type], values: Sequence[Any]) -> int:
    """Return ``hash_code``: the hash of one value, or of several that are not null, combined by a factor of 31."""
    if len(types) == 1:
        return 0 if values[0] is None else java_hash(types[0].name, values[0])
    combined = 0
    for type_, value in zip(types, values, strict=True):
        if value is not None:
            combined = wrap(31 * combined + java_hash(type_.name, value), _INT)
    return combined


HASHES: dict[str, Callable[..., int]] = {"consistent_hash_crc32": crc32, "hash_code": hash_code}


def hasher(function: str, types: Sequence[Type]) -> Callable[[Sequence[Any]], int]:
    """Return the built-in hash function for values of `types`."""
    if function == "hash_code" and [t.name for t in types] in (["int"], ["short"], ["byte"]):
        return lambda values: values[0] or 0  # the value is its own hash
    return partial(HASHES[function], types)


def bucket(hash_: Any, granularity: int) -> int:
    """Return the partition of a hash: the absolute value of its remainder. A function that returns null gives 0."""
    return 0 if hash_ is None else abs(int(hash_)) % granularity
