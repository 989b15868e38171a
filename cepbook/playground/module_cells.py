"""The module of the playground as cells: ``%%epl`` and ``%%apama NAME`` begin cells in one text.

Text above the first such line is EPL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cepbook.dialects.registry import DIALECTS
from cepbook.errors import Diagnostic, Span, did_you_mean
from cepbook.lang.syntax.source_text import EPL
from cepbook.testing.scenario import ModuleFence, QueryFence

BY_MAGIC = {row.magic: row.name for row in DIALECTS.values() if row.magic}
_HEAD = re.compile(r"^%%(?P<magic>\w*)[ \t]*(?P<name>[^\s]*)[ \t]*(?P<rest>[^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModuleCell:
    """A cell of the module. `head` is its first line, empty for EPL above the first such line.

    `name` is the statement name of a query in another dialect than EPL. `start` is the offset of `text` in the module,
    and `line` the number of its first line, counted from 1.
    """

    dialect: str
    name: str
    head: str
    text: str
    start: int
    line: int

    def fence(self, number: int) -> ModuleFence | QueryFence:
        """Return the cell as a fence of a scenario file. `number` counts the cells of EPL from 1."""
        if self.dialect == EPL:
            return ModuleFence(self.text, "main" if number == 1 else f"main-{number}", self.line)
        return QueryFence(self.dialect, self.name, self.text, self.line)


def module_cells(module: str) -> tuple[tuple[ModuleCell, ...], tuple[Diagnostic, ...]]:
    """Return the cells that have text, and diagnostics for first lines that begin no cell."""
    cells: list[ModuleCell] = []
    wrong: list[Diagnostic] = []
    heads = list(_HEAD.finditer(module))
    ends = [head.start() for head in heads] + [len(module)]
    cells += _cell(module, EPL, "", "", 0, ends[0])
    for head, end in zip(heads, ends[1:], strict=True):
        dialect = BY_MAGIC.get(head["magic"])
        if dialect is None:
            span = Span(head.start(), head.start("magic") + len(head["magic"]))
            offered = [f"%%{magic}" for magic in BY_MAGIC]
            hint = did_you_mean(f"%%{head['magic']}", offered) or f"a cell begins with {', '.join(offered)}"
            wrong.append(Diagnostic("unknown-cell", f"no language `%%{head['magic']}`", span, hint))
            continue
        if head["rest"] or (dialect == EPL and head["name"]):
            span = Span(head.start("name" if dialect == EPL else "rest"), head.end())
            wrong.append(Diagnostic("unexpected-text", "options of cells work in notebooks only", span))
        cells += _cell(module, dialect, head["name"] or "query", head.group(), min(head.end() + 1, end), end)
    return tuple(cells), tuple(wrong)


def _cell(module: str, dialect: str, name: str, head: str, start: int, end: int) -> Iterator[ModuleCell]:
    text = module[start:end]
    if text.strip():
        yield ModuleCell(dialect, name, head, text.rstrip("\n"), start, module.count("\n", 0, start) + 1)


def fences(cells: tuple[ModuleCell, ...]) -> tuple[ModuleFence | QueryFence, ...]:
    """Return the cells as fences of a scenario file."""
    modules = 0
    blocks: list[ModuleFence | QueryFence] = []
    for cell in cells:
        modules += cell.dialect == EPL
        blocks.append(cell.fence(modules))
    return tuple(blocks)
