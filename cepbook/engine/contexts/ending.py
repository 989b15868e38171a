"""Levels whose nodes a condition may end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepbook.engine.contexts.node import Branch, Held, Node
from cepbook.engine.contexts.watch import ENDS, watch

if TYPE_CHECKING:
    from cepbook.engine.contexts.levels import Level


class EndingBranch(Branch):
    """A branch whose nodes the condition `ends` ends, if there is one."""

    __slots__ = ("ends",)

    def __init__(self, level: Level, parent: Node | None) -> None:
        super().__init__(level, parent)
        self.ends = watch(self, level.form.ends, ENDS)

    def begun(self, node: Node) -> None:
        if self.ends is not None:
            self.ends.add(node, self.tree.now)

    def left(self, node: Node) -> None:
        if self.ends is not None:
            self.ends.remove(node)

    def goes_on(self, node: Node, held: Held, behind: bool) -> None:
        if self.ends is not None:
            self.ends.resume(node, held)
            if behind:
                self.ends.sort(self.children.values())
