"""Type names of EPL and Java, and types as diagnostics name them."""

from __future__ import annotations

from collections.abc import Collection

from cepbook.errors import Span
from cepbook.errors import did_you_mean as did_you_mean
from cepbook.errors import nearest_or_known_names as nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.scope import ERROR, ModuleScope
from cepbook.lang.types import Type

_JAVA_PREFIXES = ("java.lang.", "java.math.", "java.util.", "java.time.")


def builtin_type(name: str) -> Type | None:
    """Return a built-in type by its EPL or Java name, in any case, or None."""
    lower = name.lower()
    type_ = t.BY_NAME.get(lower)
    if type_ is not None:
        return type_
    for prefix in _JAVA_PREFIXES:
        if lower.startswith(prefix):
            return t.BY_NAME.get(lower.removeprefix(prefix))
    return None


def resolve_type(name: str, module: ModuleScope, span: Span, *, events: bool = True, of: str = "") -> Type:
    """Return the type called `name` (``int``, ``int[]``, an event type), or ERROR after a report.

    `of` is the name of the declared object: the hint tells if name and type are interchanged.
    """
    if name.endswith("[]"):
        element = resolve_type(name[:-2], module, span, events=events, of=of)
        return ERROR if element == ERROR else t.array_of(element)
    if events and name in module.catalog.event_types:
        module.need("event type", name)
        return t.event_of(name)
    type_ = builtin_type(name)
    if type_ is not None:
        return type_
    if name == "null":  # a column that is always null
        return t.NULL
    if name in module.dropped:
        return ERROR
    known: Collection[str] = [*t.BY_NAME, *(module.catalog.event_types if events else ())]
    hint = nearest_or_known_names(name, known)
    if of and builtin_type(of) is not None:
        hint = "name and type stand the other way round"
    module.report("unknown-type", f"no type `{name}`", module.word(name, span), hint)
    return ERROR


def describe_type(type_: Type) -> str:
    """Return a type as diagnostics name it."""
    if type_ == t.NULL:
        return "null"
    if type_.name == "event":
        return f"an event of type {type_.event}"
    return str(type_)
