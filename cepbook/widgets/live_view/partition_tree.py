"""The partitions of a nested context as the lines of a tree, of which only the visible ones are made.

Each node of an outer level has a line, followed, when it is unfolded, by the lines of the nodes below it. The cost
depends on the visible lines and the nodes beside them, not on the number of partitions below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cepbook.display import format_time, format_value
from cepbook.engine.contexts.tree_context import TreeContext
from cepbook.engine.contexts.tree_nodes import Branch, PartitionNode
from cepbook.session.inspect.partition_table import TIMES
from cepbook.widgets.live_view.partition_sheet import EVENT_COLUMNS, SIZE_COLUMNS, PartitionFigures
from cepbook.widgets.live_view.row_filter import RowFilter, first_places
from cepbook.widgets.live_view.value_columns import value_column

UNFOLDED_LIMIT = 200  # a tree of more partitions starts folded
SUM_LIMIT = 500  # in a tree of at most so many partitions, nodes show the totals of the partitions below
MAX_LINES = 200_000  # of one page
MAX_NODES = 20_000  # nodes with numbers; beyond that, numbers are given up except of (un)folded ones
KEYED_LEVELS = ("keyed", "hash", "category")  # of these levels, nodes with equal keys have equal properties


class FoldState(NamedTuple):
    """The nodes, by number, that the reader has unfolded and folded; others follow from the size of the tree."""

    opened: frozenset[int] = frozenset()
    shut: frozenset[int] = frozenset()


class TreeLine(NamedTuple):
    """A visible line: the node's number (0: a context partition), depth, place among `siblings`, values by column."""

    number: int
    depth: int
    opened: bool
    place: int
    siblings: int
    row: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TreeLines:
    """The visible `lines` of `count`. Of `total` context partitions, `matching` match the request. `levels` counts
    nodes by level.
    """

    lines: Sequence[TreeLine]
    count: int
    total: int
    matching: int
    levels: Sequence[int]


class PartitionTree:
    """The tree of one statement's context, from look to look: nodes that a page has displayed have numbers."""

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
        """Return the lines at the places `shown`. `names` has the names of keys by level: ``PerDay.key1``."""
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
        """Return the number of a node, given its keys from the outermost level on."""
        number = self._numbers.get(path)
        if number is None:
            self._last = number = self._last + 1
            self._numbers[path], self._paths[number] = number, path
        return number

    def nodes(self, tree: TreeContext, numbers: Iterable[int]) -> set[PartitionNode]:
        """Return the nodes of these numbers that still exist."""
        nodes = set()
        for path in (self._paths.get(number) for number in numbers):
            branch, node = tree.root, None
            for key in path or ():
                node = None if branch is None else branch.children.get(key)
                branch = None if node is None else node.below
            if node is not None:
                nodes.add(node)
        return nodes


class _Search:
    """The nodes that match a search for words; valid until a partition is created or ends."""

    def __init__(self, of: TreeContext | None, mark: tuple[tuple[str, ...], int, int | None]) -> None:
        self.of = of
        self.mark = mark
        self._texts: dict[Any, str] = {}  # by depth and key
        self._matches: dict[Branch, list[PartitionNode]] = {}  # of branches of which not all are found
        if of is not None and of.root is not None and mark[0]:
            self._seek(of.root, mark[0])

    def children(self, branch: Branch) -> list[PartitionNode]:
        """Return the nodes of a branch that match, or have matching nodes below."""
        matching = self._matches.get(branch)
        return list(branch.children.values()) if matching is None else matching

    def leaves(self, branch: Branch | None) -> int:
        """Return the number of matching context partitions below."""
        if branch is None:
            return 0
        if branch.level.inner is None:
            matching = self._matches.get(branch)
            return len(branch.children if matching is None else matching)
        return sum(self.leaves(node.below) for node in self.children(branch))

    def _seek(self, branch: Branch, words: Sequence[str]) -> bool:
        """Find the nodes that have all `words` in themselves or around them; return whether there are any."""
        depth, kind, inner = branch.level.depth, branch.level.kind, branch.level.inner
        like, texts = kind in KEYED_LEVELS, self._texts
        matching = self._matches[branch] = []
        for key, node in branch.children.items():
            text = texts.get((depth, key)) if like else None
            if text is None:
                text = _search_text(node)
                if like:
                    texts[depth, key] = text
            rest = [word for word in words if word not in text]
            if rest and inner is None:
                rest = [word for word in rest if word not in str(node.id)]
            if not rest or (inner is not None and node.below is not None and self._seek(node.below, rest)):
                matching.append(node)
        return bool(matching)


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
        self._visible = range(min(shown.start, MAX_LINES), min(shown.stop, MAX_LINES))
        self._search = search
        self._matching = search.leaves(tree.root)
        self._unfolded = self._matching <= UNFOLDED_LIMIT
        self._exceptions = outline.nodes(tree, folds.shut if self._unfolded else folds.opened)
        some = next(iter(tree.partitions.values()), None)
        self._sizes = () if some is None else tuple(figures.sizes(some))
        self._sums = len(tree.partitions) <= SUM_LIMIT
        self._at = 0
        self._lines: list[TreeLine] = []

    def lines(self) -> TreeLines:
        """Return all that the page gets."""
        root = self._tree.root
        if root is not None:
            self._branch(root, ())
        total = len(self._tree.partitions)
        return TreeLines(self._lines, min(self._at, MAX_LINES), total, self._matching, _nodes_per_level(root))

    def _branch(self, branch: Branch, path: tuple[Any, ...]) -> None:
        """Add the lines of the nodes of a branch and of all unfolded nodes below them."""
        nodes = self._search.children(branch)
        first, count = self._at, len(nodes)
        inner, exceptions = branch.level.inner, self._exceptions
        unfolds = inner is not None and (
            self._unfolded or (bool(exceptions) and any(node in exceptions for node in nodes))
        )
        if not unfolds:
            visible = range(max(0, self._visible.start - first), min(count, max(0, self._visible.stop - first)))
            if visible:
                order = self._ordered(branch, nodes, visible.stop)
                self._lines += [self._line(order[position], path, position, count) for position in visible]
            self._at += count
            return
        for position, node in enumerate(self._ordered(branch, nodes, count)):
            if self._at in self._visible:
                self._lines.append(self._line(node, path, position, count))
            self._at += 1
            if self._opened(node) and node.below is not None:
                self._branch(node.below, (*path, node.key))

    def _opened(self, node: PartitionNode) -> bool:
        return node.partition is None and (node in self._exceptions) != self._unfolded

    def _ordered(self, branch: Branch, nodes: list[PartitionNode], most: int) -> Sequence[PartitionNode]:
        """Return the first `most` nodes of a branch in the requested order."""
        by = self._choice.by
        if by is None:
            return nodes
        leaf = branch.level.inner is None
        if by in EVENT_COLUMNS:
            values = self._figures.column(by, [node.partition for node in nodes] if leaf else nodes)
        elif by in SIZE_COLUMNS:
            values = [self._sizes_of(node, asked=True).get(by) for node in nodes]
        elif by == "partitions":
            values = [None if leaf else self._search.leaves(node.below) for node in nodes]
        elif by == "partition":
            values = [next(iter(_identifying_properties(node).values()), None) for node in nodes]
        else:
            values = [node.id for node in nodes]
        positions = first_places(value_column(values), np.arange(len(nodes)), most, down=self._choice.down)
        return [nodes[position] for position in positions.tolist()]

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
        """Return the state sizes of a context partition, or the totals below a node; of large trees only if `asked`
        for.
        """
        if node.partition is not None:
            return self._figures.sizes(node.partition)
        totals: dict[str, int] = {}
        if asked and node.below is not None:
            for child in self._search.children(node.below):
                for name, size in self._sizes_of(child, asked=True).items():
                    totals[name] = totals.get(name, 0) + size
        return totals

    def _label(self, node: PartitionNode) -> str:
        level = node.name
        parts = []
        for raw, value in _identifying_properties(node).items():
            name = self._names.get(f"{level}.{raw}", raw)
            timed = raw in TIMES and isinstance(value, int)
            text = format_time(self._figures.ms(value)) if timed else format_value(value)
            parts.append(f"{name.removeprefix(f'{level}.')} = {text}")
        return f"{level} {', '.join(parts)}".rstrip()


def _identifying_properties(node: PartitionNode) -> dict[str, Any]:
    """Return the properties that distinguish a node from others; of a hash level also the hash."""
    properties = {"hash": node.branch.identity(node)} if node.branch.level.kind == "hash" else {}
    return properties | {name: value for name, value in node.visible_properties.items() if name not in ("id", "name")}


def _search_text(node: PartitionNode) -> str:
    """Return the text that is searched for words."""
    values = (value for name, value in _identifying_properties(node).items() if name not in TIMES and value is not None)
    return "\x01".join(map(str, values)).lower()


def _nodes_per_level(root: Branch | None) -> list[int]:
    """Return the number of nodes on each level."""
    counts: list[int] = []
    branches = [] if root is None else [root]
    while branches:
        counts.append(sum(len(branch.children) for branch in branches))
        if branches[0].level.inner is None:
            break
        branches = [node.below for branch in branches for node in branch.children.values() if node.below is not None]
    return counts
