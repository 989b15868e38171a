"""Data windows in Python: a function of the values of all retained events, the newest last, decides which of them stay.

A function with a clock is also called at a time that it requested, without a new event.

::

    shorter(price)        keeps the newest events while their prices add up to 10 or less
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
from cepbook.engine.state import created
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.window_codegen import WindowCodegen, arrival_time, creates, operands_at
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import WindowSpec


class PythonWindow(WindowView):
    """The view of a function.

    `shape` describes the parameters of `code` (`expressions.UserClass`); their values are at position `at` of items.
    """

    code: Callable[..., Any]
    shape: str
    at: int
    items: list[Item] = created(list)

    def arrive(self, item: Item, now: int) -> ViewDelta:
        if any(value is None and letter.islower() for value, letter in zip(item[self.at], self.shape, strict=True)):
            return (item,), (item,)
        return (item,), self._evict([*self.items, item], now)

    def _evict(self, items: list[Item], now: int) -> list[Item]:
        """Evaluate the function for `items`, keep the items that stay, and return those that leave."""
        stays = self._decisions(items, now)
        self.items = [item for item, stay in zip(items, stays, strict=True) if stay]
        return [item for item, stay in zip(items, stays, strict=True) if not stay]

    def _call(self, arguments: list[Any], items: list[Item], now: int) -> Any:
        return self.code(*arguments)

    def _decisions(self, items: list[Item], now: int) -> list[Any]:
        """Call the function and return one truth value per item: True if it stays.

        Errors: any exception of the function; TypeError for an unexpected result.
        """
        rows = [item[self.at] for item in items]
        arguments = [
            deep_copied([values[position] for values in rows] if letter in "lL" else rows[-1][position])
            for position, letter in enumerate(self.shape)
        ]
        answer = self._call(arguments, items, now)
        if type(answer).__module__ == "numpy":
            answer = answer.tolist()
        count = len(items)
        if answer is None:
            return [True] * count
        if isinstance(answer, int) and not isinstance(answer, bool) and answer >= 0:
            return [position >= count - answer for position in range(count)]
        if isinstance(answer, (list, tuple)) and len(answer) == count:
            return list(answer)
        raise TypeError(
            f"the window's function returned {answer!r:.40}, expected the number of events that stay or {count} truth"
            " values"
        )

    def discard(self, item: Item) -> None:
        self.items = [other for other in self.items if other is not item]

    def contents(self) -> Iterable[Item]:
        return self.items

    def retained(self) -> int:
        return len(self.items)


class WindowClock:
    """The `clock` of a data window in Python.

    It has the time `now` and the arrival `times` of the retained events, in units of the clock (milliseconds, unless
    configured otherwise), and takes the time of the next call.
    """

    __slots__ = ("due", "now", "times")

    def __init__(self, now: int, times: list[int]) -> None:
        self.now = now
        self.times = times
        self.due = NEVER

    def call_at(self, time: int) -> None:
        """Call the window again at `time`, if no event arrives before. The earliest of several times counts.

        Errors: ValueError for a time that is not after `now`, TypeError for a value that is not a whole number.
        """
        if not isinstance(time, int) or isinstance(time, bool):
            raise TypeError(f"call_at takes a time as a whole number, found {time!r:.40}")
        if time <= self.now:
            raise ValueError(f"call_at({time}) is not after now, {self.now}")
        self.due = min(self.due, time)


class ClockedPythonWindow(PythonWindow):
    """The view of a function with a clock. `time` is the position of the arrival time in items."""

    time: int

    def _call(self, arguments: list[Any], items: list[Item], now: int) -> Any:
        clock = WindowClock(now, [item[self.time] for item in items])
        answer = self.code(*arguments, clock=clock)
        self.due = clock.due
        return answer

    def advance(self, now: int) -> ViewDelta | None:
        self.due = NEVER
        left = self._evict(self.items, now) if self.items else []
        return ((), left) if left else None


def _function_code(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    function = spec.args[-1]
    assert isinstance(function, x.UserClass)
    return f"{lower.value(code.base, function)}, {code.source.const(function.shape)}"


def _values(code: CodegenContext, spec: WindowSpec) -> list[str]:
    """Return the one operand: the values of the arriving event."""
    scope = code.arriving("now")
    return [f"({''.join(lower.value(scope, e) + ', ' for e in spec.args[:-1])})"]


WINDOW = WindowCodegen(creates(PythonWindow, _function_code, operands_at), _values)
CLOCKED_WINDOW = WindowCodegen(creates(ClockedPythonWindow, _function_code, operands_at, arrival_time), _values)
