"""Hash functions of ``coalesce by``: what Java makes of values, so that partitions are those of the reference.

Recorded: null counts as nothing, and alone gives 0; several strings are preceded by their lengths in the CRC.
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
_CHAR = bytes.fromhex(  # how Java writes an object of this type
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
    """``consistent_hash_crc32``: of the values' bytes, big-endian. Values of types without a fixed form: their text."""
    several = len(types) > 1
    found = b""
    for type_, value in zip(types, values, strict=True):
        if value is None:
            continue
        form = _BYTES.get(type_.name)
        data = java_text(value).encode() if form is None else form(value)
        if several and type_.name == "string":
            data = struct.pack(">H", len(data) & 0xFFFF) + data
        found += data
    return zlib.crc32(found)


def hash_code(types: Sequence[Type], values: Sequence[Any]) -> int:
    """``hash_code``: of one value its hash, of several those of all that are not null, each by 31 with the next."""
    if len(types) == 1:
        return 0 if values[0] is None else java_hash(types[0].name, values[0])
    found = 0
    for type_, value in zip(types, values, strict=True):
        if value is not None:
            found = wrap(31 * found + java_hash(type_.name, value), _INT)
    return found


HASHES: dict[str, Callable[[Sequence[Type], Sequence[Any]], int]] = {
    "consistent_hash_crc32": crc32,
    "hash_code": hash_code,
}


def hasher(function: str, types: Sequence[Type]) -> Callable[[Sequence[Any]], int]:
    """The built-in hash function of values of `types`."""
    if function == "hash_code" and [t.name for t in types] in (["int"], ["short"], ["byte"]):
        return lambda values: values[0] or 0  # is its own hash
    return partial(HASHES[function], types)


def bucket(hash_: Any, granularity: int) -> int:
    """The partition of a hash: its remainder without sign. A function that gives null: 0."""
    return 0 if hash_ is None else abs(int(hash_)) % granularity
