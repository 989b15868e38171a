"""Placeholders of constants: what generated code may be shared by statements that differ in constants.

The code generator may pass a placeholder on into the table of constants, where each statement puts its own value. When
it does anything else with one, such as adding it or asking which of two is greater, the text depends on the answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

Compare = Callable[[Any, Any], bool]
# a fact that a text depends on: (None, i, i) is the value of constant i, else the result of a comparison of two
Question = tuple[Compare | None, int, int]


class ConstantRead(BaseException):
    """The generator reads a constant. Not an `Exception`, so that no handler of the generator takes it for a failure of
    its own.
    """

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question


class Placeholder:
    """Constant `number` of a shape. It has the type and the hash of `value`, and equals itself only.

    Any other use raises ConstantRead, except for comparisons with other placeholders that are in `answered`.
    """

    __slots__ = ("_answered", "number", "value")

    def __init__(self, number: int, value: Any, answered: frozenset[Question]) -> None:
        self.number = number
        self.value = value
        self._answered = answered

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is not Placeholder and self._read())

    def _compared(self, compare: Compare, other: Any) -> bool:
        if type(other) is not Placeholder:
            self._read()
        question = compare, self.number, other.number
        if question not in self._answered:
            raise ConstantRead(question)
        return compare(self.value, other.value)

    def __lt__(self, other: object) -> bool:
        return self._compared(operator.lt, other)

    def __le__(self, other: object) -> bool:
        return self._compared(operator.le, other)

    def __gt__(self, other: object) -> bool:
        return self._compared(operator.gt, other)

    def __ge__(self, other: object) -> bool:
        return self._compared(operator.ge, other)

    def _read(self, *_: object) -> NoReturn:
        raise ConstantRead((None, self.number, self.number))

    __getattr__ = __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _read
    __repr__ = __str__ = __format__ = __int__ = __float__ = __index__ = __complex__ = __round__ = _read
    __trunc__ = __floor__ = __ceil__ = __neg__ = __pos__ = __abs__ = __invert__ = __reduce_ex__ = _read
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _read
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _read
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _read
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _read


def constant_identity(value: Any) -> tuple[type, str]:
    """Return a key of the value of a constant. 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if type(value) is Placeholder:
        value = value.value
    return value.__class__, repr(value)
