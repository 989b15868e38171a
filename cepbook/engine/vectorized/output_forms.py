"""Builds the forms of values and conditions (`OutputForm`) that arrays compute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from cepbook.engine.vectorized.kernel_form import COMPARISONS, EXACT, NUMBER_TYPES, OutputForm
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.types import BITS

_CONNECTIVES: dict[str, Literal["and", "or"]] = {"and": "and", "or": "or"}
_OPERATORS: dict[str, Literal["+", "-", "*", "/"]] = {"+": "+", "-": "-", "*": "*", "/": "/"}


class OutputForms(ABC):
    """The forms of expressions. An expression without a form raises a `Refusal`."""

    def __init__(self, *, null_at_zero: bool) -> None:
        """`null_at_zero`: a division by zero is null, so that no quotient has a form."""
        self._operators = {"+", "-", "*"} if null_at_zero else {"+", "-", "*", "/"}

    @abstractmethod
    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        """Return the form of a value that is read or aggregated; None for other expressions."""

    @abstractmethod
    def refusal(self, e: x.BoundExpr) -> Refusal:
        """Return why an expression has no form."""

    def inexact(self, e: x.BoundExpr) -> bool:
        """Return True for a number that a float may round, so that it must not be compared as one."""
        return e.type.name == "long" or (isinstance(e.constant, int) and abs(e.constant) > EXACT)

    def value(self, e: x.BoundExpr) -> OutputForm:
        """Return the form of a value."""
        form = self.operand(e)
        if form is not None:
            return form
        if e.arithmetic is not None and e.type.name == "double":
            operator, *sides = e.arithmetic
            if operator in self._operators:
                return OutputForm(_OPERATORS[operator], operands=tuple(map(self._number, sides)))
        raise self.refusal(e)

    def condition(self, e: x.BoundExpr) -> OutputForm:
        """Return the form of a condition of which only matters whether it is true."""
        operator, sides = e.predicate or ("", ())
        if operator in _CONNECTIVES:
            return OutputForm(_CONNECTIVES[operator], operands=tuple(map(self.condition, sides)))
        form = self.comparison(operator, *sides) if operator in COMPARISONS else None
        if form is None:
            raise self.refusal(e)
        return form

    def comparison(self, operator: str, left: x.BoundExpr, right: x.BoundExpr) -> OutputForm | None:
        """Return the form of a comparison of two numbers; None if arrays would not compare them as the engine does."""
        sides = left, right
        whole = all(side.type.name in BITS for side in sides)
        if any(map(self.inexact, sides)) or (operator == "=" and not whole):
            return None
        return OutputForm(COMPARISONS[operator], operands=tuple(map(self._number, sides)))

    def _number(self, e: x.BoundExpr) -> OutputForm:
        if isinstance(e.constant, int | float) and e.type.name in NUMBER_TYPES:
            return OutputForm("constant", constant=float(e.constant))
        if e.type.name not in NUMBER_TYPES:
            raise self.refusal(e)
        return self.value(e)
