"""The partitions of a nested context as the lines of a tree, of which only those in sight are made.

A node of an outer level has its own line, and when it is unfolded those of the nodes below it. What it costs depends on
the lines in sight and on the nodes beside them, not on how many partitions there are below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cepbook.display import format_time, format_value
from cepbook.engine.contexts.tree_context import TreeContext
from cepbook.engine.contexts.tree_nodes import Branch, PartitionNode
from cepbook.session.inspect.partition_table import TIMES
from cepbook.widgets.live_view.partition_sheet import EVENT_COLUMNS, SIZE_COLUMNS, PartitionFigures
from cepbook.widgets.live_view.row_filter import RowFilter, first_places

UNFOLDED_LIMIT = 200  # a tree of more partitions is folded at first
SUM_LIMIT = (
    500  # what the states of so many partitions hold is added up for the nodes around them, else only if asked for
)
MAX_LINES = 200_000  # a page has room for so many
MAX_NODES = 20_000  # nodes that a page may have seen
KEYED_LEVELS = ("keyed", "hash", "category")  # levels whose nodes have the same properties if they have the same key


class FoldState(NamedTuple):
    """Which nodes, by number, the reader has unfolded and folded; others are as is best for the size of the tree."""

    opened: frozenset[int] = frozenset()
    shut: frozenset[int] = frozenset()


class TreeLine(NamedTuple):
    """A line in sight: the node's number (0: a context partition), depth, place among `siblings`, values by column."""

    number: int
    depth: int
    opened: bool
    place: int
    siblings: int
    row: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TreeLines:
    """`lines` are those in sight of `count`. There are `total` context partitions, of which `found` were asked for, and
    `levels` nodes on each level.
    """

    lines: Sequence[TreeLine]
    count: int
    total: int
    found: int
    levels: Sequence[int]


class PartitionTree:
    """The tree of one statement's context, from look to look: nodes that a page has seen have numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}  # by the keys from the outermost level on
        self._paths: dict[int, tuple[Any, ...]] = {}
        self._last = 0
        self._search = _Search(None, ((), 0, None))

    def look(
        self,
        tree: TreeContext,
        names: Mapping[str, str],
        figures: PartitionFigures,
        choice: RowFilter,
        folds: FoldState,
        shown: range,
    ) -> TreeLines:
        """The lines with the places `shown`. `names` are those of keys, by level: ``PerDay.key1``."""
        newest = next(reversed(tree.partitions), None)
        mark = choice.words, len(tree.partitions), newest
        if self._search.of is not tree or self._search.mark != mark:
            self._search = _Search(tree, mark)
        look = _Look(self, tree, names, figures, choice, folds, shown, self._search)
        if len(self._numbers) > MAX_NODES:
            self._forget(folds.opened | folds.shut)
        return look.lines()

    def _forget(self, but: Iterable[int]) -> None:
        self._paths = {number: self._paths[number] for number in but if number in self._paths}
        self._numbers = {path: number for number, path in self._paths.items()}

    def number(self, path: tuple[Any, ...]) -> int:
        """That of a node, by its keys from the outermost level on."""
        found = self._numbers.get(path)
        if found is None:
            self._last = found = self._last + 1
            self._numbers[path], self._paths[found] = found, path
        return found

    def nodes(self, tree: TreeContext, numbers: Iterable[int]) -> set[PartitionNode]:
        """The nodes of these numbers, as far as they live."""
        found = set()
        for path in (self._paths.get(number) for number in numbers):
            branch, node = tree.root, None
            for key in path or ():
                node = None if branch is None else branch.children.get(key)
                branch = None if node is None else node.below
            if node is not None:
                found.add(node)
        return found


class _Search:
    """Which nodes there are where words are looked for; it holds while partitions neither come nor go."""

    def __init__(self, of: TreeContext | None, mark: tuple[tuple[str, ...], int, int | None]) -> None:
        self.of = of
        self.mark = mark
        self._texts: dict[Any, str] = {}  # by depth and key
        self._kept: dict[Branch, list[PartitionNode]] = {}  # of branches of which not all are found
        if of is not None and of.root is not None and mark[0]:
            self._seek(of.root, mark[0])

    def children(self, branch: Branch) -> list[PartitionNode]:
        """The nodes of a branch that were found, or have found ones below."""
        found = self._kept.get(branch)
        return list(branch.children.values()) if found is None else found

    def leaves(self, branch: Branch | None) -> int:
        """How many context partitions below were found."""
        if branch is None:
            return 0
        if branch.level.inner is None:
            found = self._kept.get(branch)
            return len(branch.children if found is None else found)
        return sum(self.leaves(node.below) for node in self.children(branch))

    def _seek(self, branch: Branch, words: Sequence[str]) -> bool:
        """Find what has all `words` in itself or in what is around it; whether there is any."""
        depth, kind, inner = branch.level.depth, branch.level.kind, branch.level.inner
        like, texts = kind in KEYED_LEVELS, self._texts
        kept = self._kept[branch] = []
        for key, node in branch.children.items():
            text = texts.get((depth, key)) if like else None
            if text is None:
                text = _text(node)
                if like:
                    texts[depth, key] = text
            rest = [word for word in words if word not in text]
            if rest and inner is None:
                rest = [word for word in rest if word not in str(node.id)]
            if not rest or (inner is not None and node.below is not None and self._seek(node.below, rest)):
                kept.append(node)
        return bool(kept)


class _Look:
    """One look at the lines of a tree."""

    def __init__(
        self,
        outline: PartitionTree,
        tree: TreeContext,
        names: Mapping[str, str],
        figures: PartitionFigures,
        choice: RowFilter,
        folds: FoldState,
        shown: range,
        search: _Search,
    ) -> None:
        self._outline = outline
        self._tree = tree
        self._names = names
        self._figures = figures
        self._choice = choice
        self._shown = range(min(shown.start, MAX_LINES), min(shown.stop, MAX_LINES))
        self._search = search
        self._found = search.leaves(tree.root)
        self._spread = self._found <= UNFOLDED_LIMIT
        self._exceptions = outline.nodes(tree, folds.shut if self._spread else folds.opened)
        some = next(iter(tree.partitions.values()), None)
        self._sizes = () if some is None else tuple(figures.sizes(some))
        self._sums = len(tree.partitions) <= SUM_LIMIT
        self._at = 0
        self._lines: list[TreeLine] = []

    def lines(self) -> TreeLines:
        """All that the page gets."""
        root = self._tree.root
        if root is not None:
            self._branch(root, ())
        total = len(self._tree.partitions)
        return TreeLines(self._lines, min(self._at, MAX_LINES), total, self._found, _levels(root))

    def _branch(self, branch: Branch, path: tuple[Any, ...]) -> None:
        """The lines of the nodes of a branch and of all that is unfolded below them."""
        nodes = self._search.children(branch)
        first, count = self._at, len(nodes)
        inner, own = branch.level.inner, self._exceptions
        unfolds = inner is not None and (self._spread or (bool(own) and any(node in own for node in nodes)))
        if not unfolds:
            seen = range(max(0, self._shown.start - first), min(count, max(0, self._shown.stop - first)))
            if seen:
                order = self._ordered(branch, nodes, seen.stop)
                self._lines += [self._line(order[place], path, place, count) for place in seen]
            self._at += count
            return
        for place, node in enumerate(self._ordered(branch, nodes, count)):
            if self._at in self._shown:
                self._lines.append(self._line(node, path, place, count))
            self._at += 1
            if self._opened(node) and node.below is not None:
                self._branch(node.below, (*path, node.key))

    def _opened(self, node: PartitionNode) -> bool:
        return node.partition is None and (node in self._exceptions) != self._spread

    def _ordered(self, branch: Branch, nodes: list[PartitionNode], most: int) -> Sequence[PartitionNode]:
        """The first `most` nodes of a branch in the order that was asked for."""
        by = self._choice.by
        if by is None:
            return nodes
        leaf = branch.level.inner is None
        places = range(len(nodes))
        if by in EVENT_COLUMNS:
            values = self._figures.column(by, [node.partition for node in nodes] if leaf else nodes)
        elif by in SIZE_COLUMNS:
            values = [self._sizes_of(node, asked=True).get(by) for node in nodes]
        elif by == "partitions":
            values = [None if leaf else self._search.leaves(node.below) for node in nodes]
        elif by == "partition":
            values = [next(iter(_own(node).values()), None) for node in nodes]
        else:
            values = [node.id for node in nodes]
        return [nodes[place] for place in first_places(values, places, most, down=self._choice.down)]

    def _line(self, node: PartitionNode, path: tuple[Any, ...], place: int, siblings: int) -> TreeLine:
        leaf = node.partition
        row: dict[str, object] = {
            "id": node.id,
            "partition": self._label(node),
            "partitions": None if leaf is not None else self._search.leaves(node.below),
            **self._figures.seen(node if leaf is None else leaf),
            **dict.fromkeys(self._sizes),
            **self._sizes_of(node, asked=self._sums),
        }
        number = 0 if leaf is not None else self._outline.number((*path, node.key))
        return TreeLine(number, node.branch.level.depth, self._opened(node), place, siblings, row)

    def _sizes_of(self, node: PartitionNode, *, asked: bool) -> dict[str, int]:
        """What the states of a context partition hold, or of all below; of many only if it is `asked` for."""
        if node.partition is not None:
            return self._figures.sizes(node.partition)
        found: dict[str, int] = {}
        if asked and node.below is not None:
            for each in self._search.children(node.below):
                for name, size in self._sizes_of(each, asked=True).items():
                    found[name] = found.get(name, 0) + size
        return found

    def _label(self, node: PartitionNode) -> str:
        level = node.name
        parts = []
        for raw, value in _own(node).items():
            name = self._names.get(f"{level}.{raw}", raw)
            timed = raw in TIMES and isinstance(value, int)
            shown = format_time(self._figures.ms(value)) if timed else format_value(value)
            parts.append(f"{name.removeprefix(f'{level}.')} = {shown}")
        return f"{level} {', '.join(parts)}".rstrip()


def _own(node: PartitionNode) -> dict[str, Any]:
    """What tells a node from others: its properties, those of a hash level also the hash."""
    found = {"hash": node.branch.identity(node)} if node.branch.level.kind == "hash" else {}
    return found | {name: value for name, value in node.visible_properties.items() if name not in ("id", "name")}


def _text(node: PartitionNode) -> str:
    """What words are looked for in."""
    told = (value for name, value in _own(node).items() if name not in TIMES and value is not None)
    return "\x01".join(map(str, told)).lower()


def _levels(root: Branch | None) -> list[int]:
    """How many nodes there are on each level."""
    found: list[int] = []
    branches = [] if root is None else [root]
    while branches:
        found.append(sum(len(branch.children) for branch in branches))
        if branches[0].level.inner is None:
            break
        branches = [node.below for branch in branches for node in branch.children.values() if node.below is not None]
    return found
