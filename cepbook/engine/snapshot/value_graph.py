"""State as text: a graph of plain data as a flat table of nodes.

A value that JSON has (null, true, numbers, text) is written as itself, any other as `[n]`, the node number n. So shared
objects stay shared, cycles are possible, and long chains do not nest. A node is a list of its kind and its content:

===============  ==========================================================================================
list, tuple      the elements; likewise `set`, `sorted` (a `SortedList`), `key list`, `key map`
dict, ordered    keys and values in turn, in order; for an `event` with a type, the type comes first
deque            the maximum length or null, then the elements
state            the number of a class in the table of classes, then its fields; `[]` for an unset field
part             the number of a part of the program in the table of parts
mark             the name of a `StateMarker`
float, integer   text: non-finite; hexadecimal
decimal, bytes   text: as Python shows it; hexadecimal
datetime …       ISO 8601 text, for `datetime` with fold and zone key; `time`, `date` likewise
timedelta        days, seconds, microseconds
===============  ==========================================================================================

Reading creates objects of the registered state classes only, by setting their fields. Nothing in the text is executed.
Objects of users (registered functions, aggregates and windows) are fields of state, never elements or keys of
containers: so none of their methods is called.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from cepbook.engine.expressions.hashable import HashableDict, HashableList
from cepbook.engine.expressions.primitives import TypedEvent
from cepbook.engine.state import STATE_CLASSES, STATE_NAMES, SortedList, StateMarker, saved_slots
from cepbook.errors import SnapshotError

GraphNode = list[Any]
_ABSENT: GraphNode = []
_LARGE = 1 << 62
_ENGINE_PACKAGES = frozenset(("cepbook", "builtins", "collections"))


class UnsavableValue(Exception):
    """A value that no snapshot can hold."""

    def __init__(self, value: Any) -> None:
        super().__init__(f"a value of type {type(value).__module__}.{type(value).__qualname__}")
        self.value = value


class GraphWriter:
    """Writes values into one table of `nodes`. `path_of` returns the path of a part of the program, or None.

    `outside` has state objects that are referenced and not written, by path.
    """

    def __init__(self, path_of: Callable[[Any], str | None], outside: Mapping[str, Any] | None = None) -> None:
        self.nodes: list[GraphNode] = []
        self.classes: list[tuple[str, tuple[str, ...]]] = []
        self.parts: list[str] = []
        self._path_of = path_of
        self._outside = {id(value): path for path, value in (outside or {}).items()}
        self._numbers: dict[int, int] = {}  # by identity
        self._sources: list[Any] = []  # keeps the objects alive, so that their ids stay unique
        self._open: list[tuple[GraphNode, Any]] = []  # nodes that are not filled yet
        self._classes: dict[tuple[type, tuple[str, ...]], int] = {}
        self._parts: dict[str, int] = {}

    def value(self, value: Any) -> Any:
        """Write `value` and return its representation. Errors: `UnsavableValue`."""
        written = self._written(value)
        while self._open:
            node, source_value = self._open.pop()
            _FILL[node[0]](self, node, source_value)
        return written

    def _written(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        if kind is int and -_LARGE <= value <= _LARGE:
            return value
        if kind is float and value - value == 0.0:
            return value
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.nodes)
            self._sources.append(value)
            self.nodes.append(self._node(kind, value))
        return [number]

    def _node(self, kind: type, value: Any) -> GraphNode:
        container = _CONTAINERS.get(kind)
        if container is not None:
            node: GraphNode = [container]
            self._open.append((node, value))
            return node
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(value)
        if kind in STATE_NAMES and id(value) not in self._outside:
            node = ["state"]
            self._open.append((node, value))
            return node
        path = self._outside.get(id(value)) or self._path_of(value)
        if path is None:
            raise UnsavableValue(value)
        number = self._parts.setdefault(path, len(self._parts))
        if number == len(self.parts):
            self.parts.append(path)
        return ["part", number]

    def _elements(self, node: GraphNode, value: Any) -> None:
        node.extend(map(self._written, value))

    def _pairs(self, node: GraphNode, value: Mapping[Any, Any]) -> None:
        for key, element in value.items():
            node.append(self._written(key))
            node.append(self._written(element))

    def _event(self, node: GraphNode, value: TypedEvent) -> None:
        node.append(value.type)
        self._pairs(node, value)

    def _bounded(self, node: GraphNode, value: deque[Any]) -> None:
        node.append(value.maxlen)
        self._elements(node, value)

    def _fields(self, node: GraphNode, value: Any) -> None:
        cls = type(value)
        names = saved_slots(cls) + tuple(getattr(value, "__dict__", ()))
        number = self._classes.setdefault((cls, names), len(self._classes))
        if number == len(self.classes):
            self.classes.append((STATE_NAMES[cls], names))
        node.append(number)
        for name in names:
            try:
                field = getattr(value, name)
            except AttributeError:
                node.append(_ABSENT)
            else:
                node.append(self._written(field))


class GraphReader:
    """Rebuilds the values that a `GraphWriter` wrote; `parts` are the objects of its paths.

    Errors: SnapshotError if the table is invalid or has classes that this version does not have.
    """

    def __init__(
        self, nodes: Sequence[GraphNode], classes: Sequence[tuple[str, Sequence[str]]] = (), parts: Sequence[Any] = ()
    ) -> None:
        self._nodes = nodes
        self._classes = [_class(name, tuple(names)) for name, names in classes]
        self._parts = parts
        self._built: list[Any] = [None] * len(nodes)
        tuples = [number for number, node in enumerate(nodes) if self._shell(number, node)]
        self._refuse_user_objects()
        self._build_tuples(tuples)
        later: list[tuple[Any, GraphNode]] = []
        for value, node in zip(self._built, nodes, strict=True):
            fill = _REFILL.get(node[0])
            if fill is not None:
                fill(self, value, node)
            elif node[0] in _HASHED:
                later.append((value, node))
        for kinds in (("dict", "ordered", "event", "set"), ("sorted",)):  # keys and sorted elements must be complete
            for value, node in later:
                if node[0] in kinds:
                    _HASHED[node[0]](self, value, node)

    def value(self, written: Any) -> Any:
        """Return the value of a representation."""
        return self._built[written[0]] if type(written) is list else written

    def _values(self, written: Sequence[Any]) -> list[Any]:
        values = self._built
        return [values[ref[0]] if type(ref) is list else ref for ref in written]

    def _shell(self, number: int, node: GraphNode) -> bool:
        kind = node[0]
        if kind in _TUPLES:
            return True
        if kind == "state":
            cls = self._classes[node[1]][0]
            self._built[number] = object.__new__(cls)
        elif kind == "part":
            self._built[number] = self._parts[node[1]]
        elif kind == "deque":
            self._built[number] = deque(maxlen=node[1])
        else:
            self._built[number] = _SHELLS[kind](node)
        return False

    def _refuse_user_objects(self) -> None:
        """Raise TypeError if a container holds an object of a user, which it could hash or compare."""
        parts = [number for number, node in enumerate(self._nodes) if node[0] == "part"]
        packages = {number: type(self._built[number]).__module__.partition(".")[0] for number in parts}
        users = {number for number, package in packages.items() if package not in _ENGINE_PACKAGES}
        for node in self._nodes if users else ():
            if node[0] != "state" and any(type(ref) is list and ref[0] in users for ref in node[1:]):
                raise TypeError("an object of a registered function is no element of a container")

    def _build_tuples(self, numbers: Sequence[int]) -> None:
        """Build tuples after those inside them. A node is read twice at most."""
        waiting, entered, path = set(numbers), set[int](), [*numbers]
        while path:
            number = path[-1]
            if number not in waiting:
                path.pop()
                continue
            kind, *elements = self._nodes[number]
            inner = [element[0] for element in elements if type(element) is list and element[0] in waiting]
            if not inner:
                self._built[number] = _TUPLES[kind](self._values(elements))
                waiting.remove(number)
            elif number in entered:
                raise ValueError("a tuple that holds itself")
            else:
                entered.add(number)
                path += inner

    def _fill_state(self, target: Any, node: GraphNode) -> None:
        for name, written in zip(self._classes[node[1]][1], node[2:], strict=True):
            if written != _ABSENT:
                object.__setattr__(target, name, self.value(written))

    def _fill_dict(self, target: dict[Any, Any], node: GraphNode) -> None:
        values = self._values(node[1:])
        target.update(zip(values[::2], values[1::2], strict=True))

    def _fill_set(self, target: Any, node: GraphNode) -> None:
        target.update(self._values(node[1:]))


def _class(name: str, names: tuple[str, ...]) -> tuple[type, tuple[str, ...]]:
    cls = STATE_CLASSES.get(name)
    if cls is None:
        raise SnapshotError(f"this version of cepbook has no state `{name}`")
    own = saved_slots(cls)
    if names[: len(own)] != own or (len(names) > len(own) and not cls.__dictoffset__):
        raise SnapshotError(f"in this version of cepbook state `{name}` has other fields")
    return cls, names


def _zone(zone: tzinfo | None) -> str | None:
    """Return the key of a named zone; fixed offsets are in the text."""
    if zone is None or isinstance(zone, timezone):
        return None
    if isinstance(zone, ZoneInfo) and zone.key is not None:
        return zone.key
    raise UnsavableValue(zone)


def _datetime(value: datetime) -> GraphNode:
    key = _zone(value.tzinfo)
    return ["datetime", (value if key is None else value.replace(tzinfo=None)).isoformat(), value.fold, key]


def _time(value: time) -> GraphNode:
    key = _zone(value.tzinfo)
    return ["time", (value if key is None else value.replace(tzinfo=None)).isoformat(), value.fold, key]


def _zoned(moment: Any, node: GraphNode) -> Any:
    folded = moment.replace(fold=node[2])
    return folded if node[3] is None else folded.replace(tzinfo=ZoneInfo(node[3]))


_PLAIN: dict[type, Callable[[Any], GraphNode]] = {
    float: lambda v: ["float", repr(v)],
    int: lambda v: ["integer", hex(v)],
    Decimal: lambda v: ["decimal", str(v)],
    bytes: lambda v: ["bytes", v.hex()],
    datetime: _datetime,
    date: lambda v: ["date", v.isoformat()],
    time: _time,
    timedelta: lambda v: ["timedelta", v.days, v.seconds, v.microseconds],
    StateMarker: lambda v: ["mark", v.name],
}
_CONTAINERS: dict[type, str] = {
    list: "list",
    tuple: "tuple",
    HashableList: "key list",
    HashableDict: "key map",
    dict: "dict",
    TypedEvent: "event",
    OrderedDict: "ordered",
    set: "set",
    deque: "deque",
    SortedList: "sorted",
}
PLAIN_CLASSES = (*_PLAIN, *_CONTAINERS)  # of the values of rows; state has other classes, too
_FILL: dict[str, Callable[[GraphWriter, GraphNode, Any], None]] = {
    **dict.fromkeys(("list", "tuple", "key list", "key map", "set", "sorted"), GraphWriter._elements),
    **dict.fromkeys(("dict", "ordered"), GraphWriter._pairs),
    "event": GraphWriter._event,
    "deque": GraphWriter._bounded,
    "state": GraphWriter._fields,
}
_SHELLS: dict[str, Callable[[GraphNode], Any]] = {
    "list": lambda node: [],
    "dict": lambda node: {},
    "event": lambda node: TypedEvent(node[1]),
    "ordered": lambda node: OrderedDict(),
    "set": lambda node: set(),
    "sorted": lambda node: SortedList(),
    "float": lambda node: math.nan if node[1] == "nan" else float(node[1]),
    "integer": lambda node: int(node[1], 16),
    "decimal": lambda node: Decimal(node[1]),
    "bytes": lambda node: bytes.fromhex(node[1]),
    "datetime": lambda node: _zoned(datetime.fromisoformat(node[1]), node),
    "date": lambda node: date.fromisoformat(node[1]),
    "time": lambda node: _zoned(time.fromisoformat(node[1]), node),
    "timedelta": lambda node: timedelta(*node[1:]),
    "mark": lambda node: StateMarker[node[1]],
}
_TUPLES: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "key list": HashableList, "key map": HashableDict}
_REFILL: dict[str, Callable[[GraphReader, Any, GraphNode], None]] = {
    "list": lambda reader, target, node: target.extend(reader._values(node[1:])),
    "deque": lambda reader, target, node: target.extend(reader._values(node[2:])),
    "state": GraphReader._fill_state,
}
_HASHED: dict[str, Callable[[GraphReader, Any, GraphNode], None]] = {
    "dict": GraphReader._fill_dict,
    "event": lambda reader, target, node: reader._fill_dict(target, node[1:]),
    "ordered": GraphReader._fill_dict,
    "set": GraphReader._fill_set,
    "sorted": GraphReader._fill_set,
}
