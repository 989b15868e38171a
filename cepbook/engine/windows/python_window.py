"""Data windows from Python: a function of the values of all events held, the newest last, tells which of them stay.

One with a clock is also called at the time that it asked for, without a new event.

::

    shorter(price)        keeps the newest events as long as their prices add up to 10
    arrivals   4   5   3   9
    contents   4   45  53  9
    leaves             4   53
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.window_codegen import WindowCodegen
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import WindowSpec


class PythonWindow(WindowView):
    """The view; `shape` tells the parameters of `code` (`expr.UserClass`), their values stand at `at` of items."""

    __slots__ = ("at", "code", "items", "shape")

    def __init__(self, code: Callable[..., Any], shape: str, at: int) -> None:
        super().__init__()
        self.code = code
        self.shape = shape
        self.at = at
        self.items: list[Item] = []

    def arrive(self, item: Item, now: int) -> ViewDelta:
        if any(value is None and letter.islower() for value, letter in zip(item[self.at], self.shape, strict=True)):
            return (item,), (item,)
        return (item,), self._kept([*self.items, item], now)

    def _kept(self, held: list[Item], now: int) -> list[Item]:
        """Hold what stays of the items `held`; gives what leaves."""
        stays = self._asked(held, now)
        self.items = [each for each, stay in zip(held, stays, strict=True) if stay]
        return [each for each, stay in zip(held, stays, strict=True) if not stay]

    def _call(self, given: list[Any], held: list[Item], now: int) -> Any:
        return self.code(*given)

    def _asked(self, held: list[Item], now: int) -> list[Any]:
        """What the function says of each item held.

        Errors: whatever it raises; TypeError for an answer of another kind.
        """
        rows = [each[self.at] for each in held]
        given = [
            deep_copied([values[place] for values in rows] if letter in "lL" else rows[-1][place])
            for place, letter in enumerate(self.shape)
        ]
        answer = self._call(given, held, now)
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


class WindowClock:
    """What a data window from Python has as `clock`: the time `now` and the `times` at which the events held arrived,
    in units of the clock (milliseconds, unless configured otherwise), and when it is to be called again.
    """

    __slots__ = ("due", "now", "times")

    def __init__(self, now: int, times: list[int]) -> None:
        self.now = now
        self.times = times
        self.due = NEVER

    def call_at(self, time: int) -> None:
        """Call the window at `time`, if no event comes before; the earliest of several times counts.

        Errors: ValueError for a time that is not after `now`, TypeError for no whole number.
        """
        if not isinstance(time, int) or isinstance(time, bool):
            raise TypeError(f"call_at takes a time as a whole number, found {time!r:.40}")
        if time <= self.now:
            raise ValueError(f"call_at({time}) is not after now, {self.now}")
        self.due = min(self.due, time)


class ClockedPythonWindow(PythonWindow):
    """The view of a function with a clock; `time` is where the time of arrival stands in items."""

    __slots__ = ("time",)

    def __init__(self, code: Callable[..., Any], shape: str, at: int, time: int) -> None:
        super().__init__(code, shape, at)
        self.time = time

    def _call(self, given: list[Any], held: list[Item], now: int) -> Any:
        clock = WindowClock(now, [each[self.time] for each in held])
        answer = self.code(*given, clock=clock)
        self.due = clock.due
        return answer

    def advance(self, now: int) -> ViewDelta | None:
        self.due = NEVER
        left = self._kept(self.items, now) if self.items else []
        return ((), left) if left else None


def _made(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_SuppliedWindow', PythonWindow)}({_given(code, spec)}, {at})"


def _clocked(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_ClockedWindow', ClockedPythonWindow)}({_given(code, spec)}, {at}, {code.items.time})"


def _given(code: CodegenContext, spec: WindowSpec) -> str:
    function = spec.args[-1]
    assert isinstance(function, x.UserClass)
    return f"{lower.value(code.base, function)}, {code.source.const(function.shape)}"


def _values(code: CodegenContext, spec: WindowSpec) -> list[str]:
    """The one operand: the values of the arriving event."""
    scope = code.arriving("now")
    return [f"({''.join(lower.value(scope, e) + ', ' for e in spec.args[:-1])})"]


WINDOW = WindowCodegen(_made, _values)
CLOCKED_WINDOW = WindowCodegen(_clocked, _values)
