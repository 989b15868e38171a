"""State: plain data, and objects of the classes registered here. A snapshot can hold nothing else.

A subclass of `State` promises that it contains only plain data (numbers, text, times, lists, dicts …), other state, and
references to parts of the program and the runtime (generated functions, specs, statements), which a snapshot names and
does not copy. So it has no closures, partials or bound methods, and `object.__new__` with all fields set must restore
the object. It declares its fields as a dataclass does (`StateType`).

`SortedList` comes from `sortedcontainers`, whose last release is of 2021. No other module imports that package, so
another sorted list would take its place here.

A part of the runtime lists its fields that belong to the state in `SAVED`, and fields that have no meaning between two
events in `PASSING`.
"""

from __future__ import annotations

import random
from abc import ABCMeta
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeVar, dataclass_transform

from sortedcontainers import SortedList

from cepbook.interrupts import InterruptGuard

__all__ = [
    "STATE_CLASSES",
    "STATE_NAMES",
    "CoinTosses",
    "SortedList",
    "State",
    "StateMarker",
    "created",
    "defer",
    "initial",
    "saved_slots",
]

STATE_CLASSES: dict[str, type] = {}  # by name: "rows.windows.sort.Sort"
STATE_NAMES: dict[type, str] = {}


class _FirstValue(NamedTuple):
    """The first value of a field, or the function that creates it."""

    value: Any
    creates: bool

    def code(self, name: str) -> str:
        """Return the code of the first value, where `name` is `value`; literals are faster than calls."""
        if not self.creates:
            return name
        return "[]" if self.value is list else "{}" if self.value is dict else f"{name}()"


Value = TypeVar("Value")


def initial(value: Value, *, init: Literal[False] = False) -> Value:
    """Declare the first value of a field that the constructor does not take."""
    first: Any = _FirstValue(value, creates=False)
    return first  # type: ignore[no-any-return]


def created(create: Callable[[], Value], *, init: Literal[False] = False) -> Value:
    """Declare a field that the constructor does not take; ``create()`` is its first value."""
    first: Any = _FirstValue(create, creates=True)
    return first  # type: ignore[no-any-return]


@dataclass_transform(eq_default=False, field_specifiers=(initial, created))
class StateType(ABCMeta):
    """The type of state classes, whose annotations declare slots and constructor, as those of a dataclass do.

    ::

        class LengthBatch(BatchView):
            size: int                # LengthBatch(5) sets it to 5,
            count: int = initial(0)  # this one to 0, and the fields of `BatchView` to their first values

    The constructor takes the fields of the base classes first, and calls `__post_init__` if there is one.
    A class with `__slots__` of its own is left alone.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        if "__slots__" in namespace:
            return super().__new__(cls, name, bases, namespace, **options)
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        own = {n: namespace.pop(n, None) for n, of in annotations.items() if not of.startswith("ClassVar")}
        inherited: dict[str, _FirstValue | None] = {}
        for base in reversed(bases):
            inherited |= getattr(base, "FIELDS", {})
        namespace["__slots__"] = tuple(sorted(own.keys() - inherited.keys()))
        fields = namespace["FIELDS"] = inherited | own
        state_class: Any = super().__new__(cls, name, bases, namespace, **options)
        if own and "__init__" not in namespace:
            state_class.__init__ = _constructor(fields, hasattr(state_class, "__post_init__"))
        return state_class


def _constructor(fields: dict[str, _FirstValue | None], completes: bool) -> Any:
    """Return the function ``__init__`` that sets these fields; if it `completes`, it calls `__post_init__`."""
    parameters = [name for name, first in fields.items() if first is None]
    codes = {n: n if first is None else first.code(f"_first_{n}") for n, first in fields.items()}
    lines = [f"def __init__({', '.join(['self', *parameters])}):"]
    lines += [f"    self.{name} = {code}" for name, code in codes.items()]
    lines += ["    self.__post_init__()"] * completes
    names: dict[str, Any] = {f"_first_{n}": first.value for n, first in fields.items() if first is not None}
    exec("\n".join(lines), names)
    return names["__init__"]


class State(metaclass=StateType):
    """A part of the engine's state. Subclasses are registered by module and class name.

    A class that defines `SAVED` is a part of the runtime instead and is not registered.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "SAVED"):
            return
        name = f"{cls.__module__.removeprefix('cepbook.engine.')}.{cls.__qualname__}"
        STATE_CLASSES[name] = cls
        STATE_NAMES[cls] = name


def saved_slots(cls: type) -> tuple[str, ...]:
    """Return the slots of a class and its bases, without passing ones."""
    slots_in_order: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        slots = base.__dict__.get("__slots__", ())
        slots_in_order.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    left_out = {"__weakref__", "__dict__", *getattr(cls, "PASSING", ())}
    return tuple(name for name in slots_in_order if name not in left_out)


def defer(state: Any, values: Any) -> None:
    """Let the fields `DEFERRED` of a state be made when one of them is first read: ``values()`` returns them in order.

    The state's slot `stored` keeps `values` until then. A state whose fields are deferred already is left as it is.
    """
    if getattr(state, "stored", None) is None:  # it is not set in a state that a snapshot restored
        state.stored = values
        cls = type(state)
        state.__class__ = _DEFERRED_CLASSES.get(cls) or _deferred_class(cls)
        for name in cls.DEFERRED:
            delattr(state, name)


_DEFERRED_CLASSES: dict[type, type] = {}


def _deferred_class(cls: type) -> type:
    """Return the class of states like those of `cls` that make their deferred fields when these are read.

    It is a class of its own because Python looks all attributes of a class with `__getattr__` up in a slower way. In a
    snapshot it is `cls`.
    """
    named = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    own = {"__slots__": (), "__getattr__": _make_deferred, **named}
    _DEFERRED_CLASSES[cls] = type(cls)(cls.__name__, (cls,), own)
    STATE_CLASSES[STATE_NAMES[cls]] = cls  # the new class has taken its name
    return _DEFERRED_CLASSES[cls]


def _make_deferred(state: Any, name: str) -> Any:
    """Return a deferred field of a state, which is one like others from now on."""
    cls: Any = type(state).__mro__[1]
    if name not in cls.DEFERRED:
        raise AttributeError(name)
    with InterruptGuard():
        for field, value in zip(cls.DEFERRED, state.stored(), strict=True):
            setattr(state, field, value)
        state.stored, state.__class__ = None, cls
    return getattr(state, name)


class StateMarker(Enum):
    """`EMPTY` stands for a first value that has not arrived yet, `NOWHERE` for an item that no key finds."""

    EMPTY = "empty"
    NOWHERE = "nowhere"

    def __repr__(self) -> str:
        return self.name


_DRAWN_AHEAD = 256  # coins drawn at once


class CoinTosses(State):
    """The coin tosses that follow from a seed: those drawn ahead, and the state of the generator after them."""

    __slots__ = ("_generator", "_next", "_tosses")

    def __init__(self, seed: int) -> None:
        self._generator: Any = random.Random(seed).getstate()
        self._tosses: list[float] = []
        self._next = 0

    def heads(self) -> bool:
        """Toss the next coin."""
        if self._next == len(self._tosses):
            generator = random.Random()
            generator.setstate(self._generator)
            self._tosses = [generator.random() for _ in range(_DRAWN_AHEAD)]
            self._generator = generator.getstate()
            self._next = 0
        self._next += 1
        return self._tosses[self._next - 1] < 0.5
