"""Data windows from Python: a function of the values of all events held, the newest last, tells which of them stay.

::

    shorter(price)        keeps the newest events as long as their prices add up to 10
    arrivals   4   5   3   9
    contents   4   45  53  9
    leaves             4   53
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.support import copied
from cepbook.engine.rows.windows.form import Window
from cepbook.engine.rows.windows.view import Change, Item, View
from cepbook.lang import expr as x
from cepbook.lang.plan import WindowSpec


class SuppliedWindow(View):
    """The view; `shape` tells the parameters of `code` (`expr.UserClass`), their values stand at `at` of items."""

    __slots__ = ("at", "code", "items", "shape")

    def __init__(self, code: Callable[..., Any], shape: str, at: int) -> None:
        super().__init__()
        self.code = code
        self.shape = shape
        self.at = at
        self.items: list[Item] = []

    def arrive(self, item: Item, now: int) -> Change:
        values = item[self.at]
        if any(value is None and letter.islower() for value, letter in zip(values, self.shape, strict=True)):
            return (item,), (item,)
        held = [*self.items, item]
        stays = self._asked([each[self.at] for each in held], values)
        self.items = [each for each, stay in zip(held, stays, strict=True) if stay]
        return (item,), [each for each, stay in zip(held, stays, strict=True) if not stay]

    def _asked(self, held: list[Any], newest: tuple[Any, ...]) -> list[Any]:
        """What the function says of each item held.

        Errors: whatever it raises; TypeError for an answer of another kind.
        """
        given = [
            copied([values[place] for values in held] if letter in "lL" else newest[place])
            for place, letter in enumerate(self.shape)
        ]
        answer = self.code(*given)
        if type(answer).__module__ == "numpy":
            answer = answer.tolist()
        count = len(held)
        if answer is None:
            return [True] * count
        if isinstance(answer, int) and not isinstance(answer, bool) and answer >= 0:
            return [place >= count - answer for place in range(count)]
        if isinstance(answer, (list, tuple)) and len(answer) == count:
            return list(answer)
        raise TypeError(
            f"the window's function gave {answer!r:.40}, where {count} truth values or the number of events that stay"
            " are needed"
        )

    def discard(self, item: Item) -> None:
        self.items = [each for each in self.items if each is not item]

    def contents(self) -> Iterable[Item]:
        return self.items

    def retained(self) -> int:
        return len(self.items)


def _made(code: Code, spec: WindowSpec, at: int) -> str:
    function = spec.args[-1]
    assert isinstance(function, x.UserClass)
    shape = code.source.const(function.shape)
    return f"{code.source.bind('_SuppliedWindow', SuppliedWindow)}({lower.value(code.base, function)}, {shape}, {at})"


def _values(code: Code, spec: WindowSpec) -> list[str]:
    """The one operand: the values of the arriving event."""
    scope = code.arriving("now")
    return [f"({''.join(lower.value(scope, e) + ', ' for e in spec.args[:-1])})"]


WINDOW = Window(_made, _values)
