"""Aggregates written in Python: a class with ``enter(value, …)``, ``leave(value, …)`` and ``value()``.

Only the attributes of the user's object are kept, so a snapshot can hold them if they are plain data. An object is made
around them for each call.
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.state import State


class UserAggregate(State):
    """An aggregate of a class from Python, which takes `count` values of each event.

    A failure of its code is raised where the value is asked for, as long as events are in it that it could not take.
    """

    __slots__ = ("attributes", "broken", "code", "count", "inside")

    def __init__(self, code: type, count: int) -> None:
        self.code = code
        self.count = count
        self.inside = 0
        self._begin()

    def _begin(self) -> None:
        self.broken: str | None = None
        try:
            self.attributes = self.code().__dict__
        except Exception as failure:  # noqa: BLE001 - whatever code of the user raises is told of
            self.attributes = {}
            self._break(failure)

    def enter(self, value: Any) -> None:
        self.inside += 1
        self._call("enter", value)

    def leave(self, value: Any) -> None:
        self.inside -= 1
        self._call("leave", value)
        if self.broken is not None and not self.inside:
            self._begin()

    def value(self) -> Any:
        """The value. Errors: RuntimeError for a failure before."""
        if self.broken is not None:
            raise RuntimeError(self.broken)
        return self._object().value()

    def _object(self) -> Any:
        made: Any = object.__new__(self.code)
        made.__dict__ = self.attributes
        return made

    def _call(self, method: str, value: Any) -> None:
        if self.broken is not None:
            return
        given = deep_copied(value)
        try:
            getattr(self._object(), method)(*(given if self.count > 1 else (given,)[: self.count]))
        except Exception as failure:  # noqa: BLE001 - whatever code of the user raises is told of
            self._break(failure)

    def _break(self, failure: Exception) -> None:
        self.broken = f"`{self.code.__name__}` failed: {type(failure).__name__}: {failure}"
