"""The levels of a context's tree: what is the same for all branches of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cepbook.engine.contexts.assigner import OUTSIDE, PartitionLocation, PartitionLocator
from cepbook.engine.contexts.context_compiler import CompiledLevel, EventCondition, LevelStream, PatternCondition
from cepbook.engine.contexts.event_routing import EventRouting
from cepbook.engine.contexts.lifecycle import NonOverlappingBranch, OverlappingBranch
from cepbook.engine.contexts.partitioning import CategoryBranch, HashBranch, KeyedBranch
from cepbook.engine.contexts.selectors import level_kind
from cepbook.engine.contexts.tree_nodes import Branch, PartitionNode
from cepbook.lang.plan import context as c

if TYPE_CHECKING:
    from cepbook.engine.contexts.tree_context import TreeContext

_BRANCHES: dict[type, type[Branch]] = {
    c.KeyedSpec: KeyedBranch,
    c.HashSpec: HashBranch,
    c.CategorySpec: CategoryBranch,
    c.NonOverlappingSpec: NonOverlappingBranch,
    c.OverlappingSpec: OverlappingBranch,
}


class LevelMatch(NamedTuple):
    """What an event means to a level: its listed `stream` (None: its type is not listed), whether it `passes` the
    filter, the `key` of its node, and the key values; of category levels these are the numbers of the categories.
    """

    stream: LevelStream | None
    passes: bool
    key: Any
    keys: Sequence[Any]


_UNLISTED = LevelMatch(None, True, None, ())


class Level:
    """One level: its compiled `form`, the level `inner` to it, and which events matter to it.

    `timed` levels tell startTime and endTime. `hidden` are the properties that only the end of a node gives; `unknown`
    has null for all that conditions give.
    """

    def __init__(self, form: CompiledLevel, depth: int, tree: TreeContext, inner: Level | None, nested: bool) -> None:
        self.form = form
        self.name = form.name
        self.depth = depth
        self.tree = tree
        self.inner = inner
        self.nested = nested
        self.timed = isinstance(form.spec, (c.NonOverlappingSpec, c.OverlappingSpec))
        self.kind = level_kind(form.spec)
        self.hidden: tuple[str, ...] = () if form.ends is None else form.ends.names
        self.unknown = dict.fromkeys([*(name for begins in form.begins for name in begins.names), *self.hidden])
        self._concerns: dict[str, bool] = {}
        self._selects: dict[str, bool] = {}
        self._streams: dict[str, LevelStream | None] = {}
        self._types: dict[str, frozenset[str]] = {}

    def branch(self, parent: PartitionNode | None) -> Branch:
        """A branch of this level under `parent`."""
        return _BRANCHES[type(self.form.spec)](self, parent)

    def rewired(self) -> None:
        """Event types changed."""
        self._concerns.clear()
        self._selects.clear()
        self._streams.clear()
        self._types.clear()

    def is_a(self, type_name: str, supertype: str) -> bool:
        """`TreeContext.is_a`, found once for a type."""
        found = self._types.get(type_name)
        if found is None:
            found = self._types[type_name] = frozenset(self.tree.types_of(type_name))
        return supertype in found

    def stream(self, type_name: str) -> LevelStream | None:
        """The listed stream that events of `type_name` are of; None: they do not tell the level's nodes apart."""
        try:
            return self._streams[type_name]
        except KeyError:
            is_a = self.tree.is_a
            found = (s for s in self.form.streams if is_a(type_name, s.event_type))
            return self._streams.setdefault(type_name, next(found, None))

    def look(self, round_: EventRouting) -> LevelMatch:
        """What an event means to the level: found once for an event, however many branches ask.

        Where a function fails in it the first who asks gets the failure, and to all others it is an event of no node.
        """
        found = round_.looks.get(self.depth)
        if found is None:
            try:
                found = self._look(round_.type_name, round_.event)
            except Exception:
                round_.looks[self.depth] = LevelMatch(self.stream(round_.type_name), False, object(), ())
                raise
            round_.looks[self.depth] = found
        return found

    def _look(self, type_name: str, event: Any) -> LevelMatch:
        stream = self.stream(type_name)
        if stream is None:
            return _UNLISTED
        passes = stream.passes is None or stream.passes(event)
        key, keys = stream.place(event) if passes or self.kind == "keyed" else (None, ())
        return LevelMatch(stream, passes, key, keys)

    def selects(self, type_name: str) -> bool:
        """Whether this level or one below it tells its nodes apart by events of the type."""
        found = self._selects.get(type_name)
        if found is None:
            below = self.inner is not None and self.inner.selects(type_name)
            found = self._selects[type_name] = below or self.stream(type_name) is not None
        return found

    def concerns(self, type_name: str) -> bool:
        """Whether events of the type may allocate or end nodes, here or below."""
        found = self._concerns.get(type_name)
        if found is None:
            found = self._concerns[type_name] = self._looks(type_name)
        return found

    def _looks(self, type_name: str) -> bool:
        if self.inner is not None and self.inner.concerns(type_name):
            return True
        conditions = (*self.form.begins, self.form.ends)
        types = {t for form in conditions for t in _types(form)} | {s.event_type for s in self.form.streams}
        return any(self.tree.is_a(type_name, each) for each in types)


def _types(form: object) -> Iterable[str]:
    if isinstance(form, PatternCondition):
        return form.types
    return (form.event_type,) if isinstance(form, EventCondition) else ()


def build_levels(forms: tuple[CompiledLevel, ...], tree: TreeContext) -> Level:
    """The outermost level of a tree."""
    found: Level | None = None
    for depth, form in reversed(list(enumerate(forms))):
        found = Level(form, depth, tree, found, len(forms) > 1)
    assert found is not None
    return found


def levels_from(level: Level | None) -> Iterator[Level]:
    """All levels from an outermost one on."""
    while level is not None:
        yield level
        level = level.inner


def assignment_obstacle(outermost: Level) -> str | None:
    """Why an event alone does not tell which partitions it is for, for people; None: keys, hashes, categories tell."""
    types = {stream.event_type for stream in outermost.form.streams}
    for level in levels_from(outermost):
        form = level.form
        if not isinstance(form.spec, (c.KeyedSpec, c.HashSpec, c.CategorySpec)) or form.begins or form.ends is not None:
            return "has conditions that begin and end partitions between the events"
        if any(stream.alias is not None for stream in form.streams):
            return "has partitions that keep their first event"
        if types != {stream.event_type for stream in form.streams}:
            return "has levels that list different streams"
        if level is not outermost and not all(each.decides and each.passes is None for each in form.streams):
            return "has an inner level that may hide events from those within, or fail"  # the outer one has allocated
    return None


def locator_through(outermost: Level, type_name: str) -> PartitionLocator | None:
    """How events of a type find their partitions, where there is no `objection`; None: they are not listed."""
    found = [level.stream(type_name) for level in levels_from(outermost)]
    streams = [stream for stream in found if stream is not None]
    if len(streams) < len(found):
        return None
    places = [
        _categories(stream) if level.kind == "category" else stream.place
        for level, stream in zip(levels_from(outermost), streams, strict=True)
    ]
    passes, first, *inner = streams[0].passes, *places

    def locate(event: Any) -> PartitionLocation:
        if passes is not None and not passes(event):
            return OUTSIDE, ()
        own, values = first(event)
        if own == ():  # of no category
            return OUTSIDE, ()
        within = [place(event) for place in inner]
        return (own, *(key for key, _ in within)), (values, *(keys for _, keys in within))

    read = [name for stream in streams for name in stream.reads or ()]
    needed = None if any(stream.reads is None for stream in streams) else tuple(dict.fromkeys(read))
    several = any(level.kind == "category" for level in levels_from(outermost))
    return PartitionLocator(locate, needed, all(stream.decides for stream in streams), several=several)


def _categories(stream: LevelStream) -> Callable[[Any], tuple[Any, Sequence[Any]]]:
    """As `Stream.place`; the key are the numbers of the categories."""
    return lambda event: (tuple(stream.place(event)[1]), ())


def visible_properties(node: PartitionNode) -> dict[str, Any]:
    """The properties of a live node, as inspection shows them."""
    hidden = node.branch.level.hidden
    return {name: value for name, value in node.properties.items() if name not in hidden}
