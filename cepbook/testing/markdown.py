"""The Markdown of scenario files: sections under headings, and the fenced blocks in them.

Fences follow CommonMark: a block that begins with four backticks ends with four or more. So a document *about* scenario
files can show one inside a longer fence without being taken for a case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\Z")
CHECK_FENCES = ("trace", "invalid", "invalid-query")  # a case has at least one of these
_CHECK = re.compile(rf"^ {{0,3}}(?:`{{3,}}|~{{3,}})[ \t]*(?:{'|'.join(CHECK_FENCES)})(?!\S)", re.MULTILINE)
_OPENING = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^`]*?)[ \t]*\Z")


def may_check(source: str) -> bool:
    """Return False if a text certainly holds no case. This is a fast test without parsing."""
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
    """A heading and its text up to the next heading.

    `prose` holds the numbered lines outside of blocks. The text before the first heading is a section of level 0.
    """

    level: int
    title: str
    line: int
    last_line: int
    prose: tuple[tuple[int, str], ...]
    blocks: tuple[FencedBlock, ...]


@lru_cache(maxsize=4)  # the same file is read several times in a row
def sections(text: str) -> tuple[Section, ...]:
    """Return the sections of a Markdown text in order. Together they cover every line."""
    result: list[Section] = []
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
                result.append(Section(level, title, start, number - 1, tuple(prose), tuple(blocks)))
            title, level, start, prose, blocks = heading.group(2), len(heading.group(1)), number, [], []
        last = number
    if level or last:
        result.append(Section(level, title, start, last, tuple(prose), tuple(blocks)))
    return tuple(result)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends.

    Only line feeds end lines, because strings may hold other separators.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _items(text: str) -> Iterator[FencedBlock | tuple[int, str]]:
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
        contents = tuple(  # an indented fence indents its contents as well
            line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in lines[at + 1 : end]
        )
        yield FencedBlock(info, contents, at + 1, min(end + 1, len(lines)))
        at = end + 1
