"""Placeholders of constants: what statements that differ in constants may share.

Binder, lowering and code generator may pass a placeholder on, and each statement puts its own value there. When they do
anything else with one, such as adding it or asking which of two is greater, the result depends on the answer. So what
is shared is what each statement would have alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

Template = TypeVar("Template")
_MOST_TEMPLATES = 64  # of a family; further statements do without
Compare = Callable[[Any, Any], bool]
# a fact that a text depends on: (None, i, i) is the value of constant i, else the result of a comparison of two
Question = tuple[Compare | None, int, int]


class ConstantRead(BaseException):
    """A constant is read. Not an `Exception`, so that no handler of the binder or generator takes it for a failure of
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
        if self is other:
            return True
        if type(other) is Placeholder and type(self.value) is type(other.value) is not float:
            return False  # which constants are equal is part of the shape
        return self._compared(operator.eq, other)  # 1 equals 1.0, and 0.0 equals -0.0

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


def equal_constants(constants: Sequence[Any]) -> tuple[int, ...]:
    """Return for each constant the number of the first one with the same value."""
    first: dict[tuple[type, str], int] = {}
    return tuple([first.setdefault(constant_identity(value), number) for number, value in enumerate(constants)])


class TemplateFamily(Generic[Template]):
    """The templates of statements that differ in constants, by the answers to questions about these."""

    def __init__(self) -> None:
        self._questions: tuple[Question, ...] = ()
        self._templates: dict[tuple[Any, ...], Template | None] = {}

    def find(self, values: Sequence[Any], make: Callable[[frozenset[Question]], Template | None]) -> Template | None:
        """Return the template for the constants `values`, or None if there is none.

        ``make(answered)`` creates one from placeholders that know the answers to these questions. It may raise
        ConstantRead. It returns None, or raises TypeError because a function of Python takes no placeholder, if nothing
        can be shared.
        """
        answers = self._answers(values)
        while answers not in self._templates and len(self._templates) < _MOST_TEMPLATES:
            try:
                template = make(frozenset(self._questions))
            except ConstantRead as read:
                self._questions = (*self._questions, read.question)
                self._templates.clear()
                answers = self._answers(values)
                continue
            except TypeError:
                template = None
            self._templates[answers] = template
        return self._templates.get(answers)

    def _answers(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            [
                constant_identity(values[i]) if compare is None else compare(values[i], values[j])
                for compare, i, j in self._questions
            ]
        )
