"""The two functions that cases may call without declaring them: ``computeHash`` and ``concatStr``.

Both work on the text that Java gives a value, so that cases can be compared with an implementation on the JVM.
"""

from __future__ import annotations

from typing import Any

from cepbook.lang.java.numbers import java_text


def compute_hash(value: Any) -> int:
    """Java's ``String.hashCode`` of the value's text, ``& 0x7fffffff``."""
    code = 0
    encoded = java_text(value).encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return code & 0x7FFFFFFF


def concat_str(left: Any, right: Any) -> str:
    """The texts of both values, one after the other."""
    return java_text(left) + java_text(right)
