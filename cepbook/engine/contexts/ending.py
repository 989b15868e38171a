"""Levels whose nodes a condition may end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepbook.engine.contexts.condition_watch import ENDS, watch_condition
from cepbook.engine.contexts.tree_nodes import Branch, DetachedNode, PartitionNode

if TYPE_CHECKING:
    from cepbook.engine.contexts.tree_levels import Level


class EndingBranch(Branch):
    """A branch whose nodes the condition `ends` ends, if there is one."""

    __slots__ = ("ends",)

    def __init__(self, level: Level, parent: PartitionNode | None) -> None:
        super().__init__(level, parent)
        self.ends = watch_condition(self, level.form.ends, ENDS)

    def begun(self, node: PartitionNode) -> None:
        if self.ends is not None:
            self.ends.add(node, self.tree.now)

    def left(self, node: PartitionNode) -> None:
        if self.ends is not None:
            self.ends.remove(node)

    def goes_on(self, node: PartitionNode, held: DetachedNode, behind: bool) -> None:
        if self.ends is not None:
            self.ends.resume(node, held)
            if behind:
                self.ends.sort(self.children.values())
