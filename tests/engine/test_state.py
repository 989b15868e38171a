"""State classes get their slots and constructors from their annotations."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import ClassVar

import pytest

from cepbook.engine import state
from cepbook.engine.state import State, created, initial, saved_slots


@pytest.fixture(autouse=True)
def _no_classes_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes of the tests are registered as those of the engine are."""
    monkeypatch.setattr(state, "STATE_CLASSES", dict(state.STATE_CLASSES))
    monkeypatch.setattr(state, "STATE_NAMES", dict(state.STATE_NAMES))


def test_the_constructor_takes_the_fields_without_a_first_value() -> None:
    class View(State):
        steady: ClassVar[bool] = True
        due: int = initial(9)
        items: deque[int] = created(deque)

        def text(self) -> str:
            return "view"

    class Length(View):
        size: int
        count: int = initial(0)

        def text(self) -> str:
            return f"length of {super().text()}"

    one, other = Length(5), Length(size=6)
    one.items.append(1)
    assert (one.size, one.count, one.due, list(one.items)) == (5, 0, 9, [1])
    assert (other.size, list(other.items), other.text()) == (6, [], "length of view")
    assert saved_slots(Length) == ("due", "items", "count", "size")
    assert Length.steady and not hasattr(one, "__dict__")
    with pytest.raises(TypeError):
        Length()  # type: ignore[call-arg]


def test_a_subclass_may_change_the_first_value_of_a_field() -> None:
    class Rows(State):
        rows: list[int] | dict[int, int] = created(list)

    class KeyedRows(Rows):
        rows: list[int] | dict[int, int] = created(dict)

    class FilledRows(Rows):
        rows: list[int] | dict[int, int]

    assert (Rows().rows, KeyedRows().rows, FilledRows([1]).rows) == ([], {}, [1])
    assert KeyedRows.__dict__["__slots__"] == ()


def test_a_class_may_complete_its_fields() -> None:
    class Doubled(State):
        size: int
        twice: int = initial(0)

        def __post_init__(self) -> None:
            self.twice = 2 * self.size

    class More(Doubled):
        rest: int

    assert (Doubled(3).twice, More(4, 1).twice) == (6, 8)


def test_a_class_with_slots_or_a_constructor_of_its_own_keeps_it() -> None:
    class View(State):
        due: int = initial(9)

    class Own(View):
        __slots__ = ("double",)

        def __init__(self, size: int) -> None:
            super().__init__()
            self.double = 2 * size

    class Likewise(View):
        size: int

        def __init__(self, text: str) -> None:
            super().__init__()
            self.size = int(text)

    assert (Own(3).double, Own(3).due) == (6, 9)
    assert (Likewise("4").size, Likewise("4").due) == (4, 9)


def test_a_state_class_may_be_abstract() -> None:
    class Gate(State):
        @abstractmethod
        def is_open(self) -> bool: ...

    class OpenGate(Gate):
        def is_open(self) -> bool:
            return True

    assert OpenGate().is_open()
    with pytest.raises(TypeError):
        Gate()  # type: ignore[abstract]
