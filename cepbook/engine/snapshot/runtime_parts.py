"""The parts of a runtime by name: objects that hold state, and program objects that state refers to.

Two runtimes with the same modules, deployed in the same order, have the same parts under the same paths. A part that
holds state lists these fields in `SAVED`, and fields that matter only during one event in `PASSING`. Everything else
that can be reached from a part is program: functions, classes, objects of the engine. Plain containers have no path;
state contains copies of them.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from decimal import Decimal
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from cepbook.engine.state import STATE_NAMES, saved_slots


class RuntimeParts:
    """The parts of `runtime`. `live` has those that hold state, by path; `fingerprint` identifies the program."""

    def __init__(self, runtime: Any) -> None:
        self.live: dict[str, Any] = {}
        self._paths: dict[int, str] = {}
        self._objects: dict[str, Any] = {}  # also keeps the objects alive, so that their ids stay unique
        self._namespaces: dict[int, dict[str, Any]] = {}
        self._walk(runtime)

    def path(self, value: Any) -> str | None:
        """Return the path of a part, or None."""
        return self._paths.get(id(value))

    def find(self, path: str) -> Any:
        """Return the part at a path. Errors: KeyError."""
        return self._objects[path]

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal generated code with equal constants."""
        identities = sorted(json.dumps(_identity(namespace)) for namespace in self._namespaces.values())
        return hashlib.sha256("\n".join(identities).encode()).hexdigest()

    def _walk(self, runtime: Any) -> None:
        """Assign paths, shortest first, so that they do not depend on listeners or on the order of visits."""
        seen: set[int] = set()
        following = deque([("runtime", runtime)])
        while following:
            path, value = following.popleft()
            if isinstance(value, MethodType):
                path, value = f"{path}.self", value.__self__
            kind = type(value)
            if id(value) in seen or kind in _LEAVES or kind in STATE_NAMES:
                continue
            seen.add(id(value))
            container = kind in (dict, list, tuple)
            if not container:
                self._paths[id(value)] = path
            self._objects[path] = value
            if kind is FunctionType and "__source__" in value.__globals__:
                self._namespaces.setdefault(id(value.__globals__), value.__globals__)
            if hasattr(kind, "SAVED"):
                self.live[path] = value
            if container or kind.__module__.startswith("cepbook.engine"):
                following.extend((f"{path}.{name}", inner) for name, inner in _inside(kind, value))


CACHE_ATTRIBUTE = "_parts_of_snapshots"  # attribute of a runtime that is not one of its parts


def runtime_parts(runtime: Any) -> RuntimeParts:
    """Return the parts of a runtime, cached until statements come or go."""
    version, parts = vars(runtime).get(CACHE_ATTRIBUTE, (-1, None))
    if parts is None or version != runtime.version:
        parts = RuntimeParts(runtime)
        setattr(runtime, CACHE_ATTRIBUTE, (runtime.version, parts))
    current: RuntimeParts = parts
    return current


_LEAVES = frozenset((type(None), bool, int, float, str, bytes, Decimal, BuiltinFunctionType))


def _path_step(key: Any) -> str:
    """Return the text of a key; its dots are escaped, so that no key reads like a path below another key."""
    text = str(key)
    return text.replace("\\", "\\\\").replace(".", "\\.") if "." in text or "\\" in text else text


def _inside(kind: type, value: Any) -> Iterable[tuple[Any, Any]]:
    if kind is dict:
        return [(_path_step(key), element) for key, element in value.items()]
    if kind in (list, tuple):
        return enumerate(value)
    left_out = {*getattr(kind, "SAVED", ()), *getattr(kind, "PASSING", ()), CACHE_ATTRIBUTE}
    names = (*saved_slots(kind), *getattr(value, "__dict__", ()))
    return [(name, getattr(value, name, None)) for name in names if name not in left_out]


def _identity(namespace: dict[str, Any]) -> Any:
    text, constants = namespace["__source__"]
    return [text, *((name, _shown(value)) for name, value in constants.items())]


def _shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_shown(element) for element in value]
    return [type(value).__qualname__, repr(value) if type(value) in _LEAVES else None]
