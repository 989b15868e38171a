"""Aggregates written in Python: a class with ``enter(value, …)``, ``leave(value, …)`` and ``value()``.

Only the attributes of the user's object are kept, so a snapshot can hold them if they are plain data. An object is made
around them for each call.
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.state import State


class UserAggregate(State):
    """The state of an aggregate written in Python, which takes `count` values of each event. A failure of its code is
    raised when the value is read, until all events that it could not take have left.
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
        except Exception as failure:  # noqa: BLE001 - the value reports it
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
        """Return the value. Errors: RuntimeError after a failure of the user's code."""
        if self.broken is not None:
            raise RuntimeError(self.broken)
        return self._object().value()

    def _object(self) -> Any:
        instance: Any = object.__new__(self.code)
        instance.__dict__ = self.attributes
        return instance

    def _call(self, method: str, value: Any) -> None:
        if self.broken is not None:
            return
        argument = deep_copied(value)
        try:
            getattr(self._object(), method)(*(argument if self.count > 1 else (argument,)[: self.count]))
        except Exception as failure:  # noqa: BLE001 - the value reports it
            self._break(failure)

    def _break(self, failure: Exception) -> None:
        self.broken = f"`{self.code.__name__}` failed: {type(failure).__name__}: {failure}"
