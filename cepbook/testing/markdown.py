"""The Markdown that scenario files need: sections under headings, and the fenced blocks inside them.

Fences follow CommonMark: a block that was opened with four backticks is closed by four or more, so a document
*about* scenario files can show one inside a longer fence without it being taken for a case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\Z")
CHECK_FENCES = ("trace", "invalid", "invalid-query")  # what a case of a scenario file has, whatever its language
_CHECK = re.compile(rf"^ {{0,3}}(?:`{{3,}}|~{{3,}})[ \t]*(?:{'|'.join(CHECK_FENCES)})(?!\S)", re.MULTILINE)
_OPENING = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^`]*?)[ \t]*\Z")


def may_check(source: str) -> bool:
    """Whether a text may hold a case; False says for sure that it does not, without a look at its structure."""
    return _CHECK.search(source) is not None


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced block. `info` is the text after the opening fence; `lines` are its contents.

    `line` is the 1-based number of the opening fence and `last_line` that of the closing one.
    """

    info: str
    lines: tuple[str, ...]
    line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it up to the next heading.

    `prose` holds the numbered lines outside of blocks. The text before the first heading is a section of level 0.
    """

    level: int
    title: str
    line: int
    last_line: int
    prose: tuple[tuple[int, str], ...]
    blocks: tuple[FencedBlock, ...]


@lru_cache(maxsize=4)  # the same file is looked at several times in a row
def sections(text: str) -> tuple[Section, ...]:
    """The sections of a Markdown text, in order; together they cover every line."""
    found: list[Section] = []
    title, level, start = "", 0, 1
    prose: list[tuple[int, str]] = []
    blocks: list[FencedBlock] = []
    last = 0
    for item in _items(text):
        if isinstance(item, FencedBlock):
            blocks.append(item)
            last = item.last_line
            continue
        number, line = item
        heading = _HEADING.match(line)
        if heading is None:
            prose.append((number, line))
        else:
            if level or last:
                found.append(Section(level, title, start, number - 1, tuple(prose), tuple(blocks)))
            title, level, start, prose, blocks = heading.group(2), len(heading.group(1)), number, [], []
        last = number
    if level or last:
        found.append(Section(level, title, start, last, tuple(prose), tuple(blocks)))
    return tuple(found)


def split_lines(text: str) -> list[str]:
    """The lines of a text without their ends. Only line feeds end lines: other separators may stand in strings."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _items(text: str) -> Iterator[FencedBlock | tuple[int, str]]:
    """Blocks, and the numbered lines between them."""
    lines = split_lines(text)
    at = 0
    while at < len(lines):
        opening = _OPENING.match(lines[at])
        if opening is None:
            yield at + 1, lines[at]
            at += 1
            continue
        indent, fence, info = len(opening.group(1)), opening.group(2), opening.group(3)
        closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\Z")
        end = at + 1
        while end < len(lines) and closing.match(lines[end]) is None:
            end += 1
        contents = tuple(_without_indent(line, indent) for line in lines[at + 1 : end])
        yield FencedBlock(info, contents, at + 1, min(end + 1, len(lines)))
        at = end + 1


def _without_indent(line: str, indent: int) -> str:
    """`line` without at most `indent` leading blanks: an indented fence indents its contents, too."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]
