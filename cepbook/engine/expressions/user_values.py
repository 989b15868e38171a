"""What comes from Python: results of functions as values of the types that they are declared to have, and aggregates.

An aggregate is a class with ``enter(value, …)``, ``leave(value, …)`` and ``value()``. Of its objects only the
attributes are kept, so that a snapshot can hold them where they are plain data; an object is made around them for each
call.
"""

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
    """What a function gave as a value of the type `to`; numbers of numpy are told by their values.

    Errors: TypeError for a value of another type.
    """
    if value is None:
        return None
    if type(value).__module__ == "numpy":
        value = value.tolist()
    if to.of is not None and isinstance(value, (list, tuple)):
        return [as_declared_type(each, to.of) for each in value]
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
    shown = repr(value)
    raise TypeError(f"the function gave {shown if len(shown) < 40 else shown[:37] + '...'}, which is no {to}")
