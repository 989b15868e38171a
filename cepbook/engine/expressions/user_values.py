"""Results of functions written in Python, as values of their declared types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from cepbook.engine.expressions.primitives import to_float32
from cepbook.lang.types import BITS, Type

_KINDS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "string": (str,),
    "char": (str,),
    "map": (dict,),
    "event": (dict,),
    "struct": (dict,),
}


def as_declared_type(value: Any, to: Type) -> Any:
    """Return the result of a function as a value of type `to`; numbers of numpy become Python numbers. Errors:
    TypeError for a value of another type.
    """
    if value is None:
        return None
    if type(value).__module__ == "numpy":
        value = value.tolist()
    if to.of is not None and isinstance(value, (list, tuple)):
        return [as_declared_type(element, to.of) for element in value]
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    name = to.name
    if name == "object":
        return value
    if number and name in ("double", "float"):
        return float(value) if name == "double" else to_float32(float(value))
    if number and isinstance(value, int):
        bits = BITS.get(name)
        if name == "biginteger" or (bits is not None and -1 << (bits - 1) <= value < 1 << (bits - 1)):
            return value
    if number and name == "bigdecimal":
        return value if isinstance(value, Decimal) else Decimal(repr(value))
    if isinstance(value, _KINDS.get(name, ())):
        return value
    text = repr(value)
    raise TypeError(f"the function returned {text if len(text) < 40 else text[:37] + '...'}, which is no {to}")
