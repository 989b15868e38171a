"""Reads scenario files: Markdown that reads as documentation and runs as a test.

`read` turns a file into frozen dataclasses. A `File` holds cases (a case is a heading with fences below it), a case
holds its fences in order, and a `TraceFence` holds steps: one stimulus with its expected reactions. Malformed text
raises `ScenarioError` with file and line.

The docstring of the package `cepbook.testing` describes how to write such files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cepbook.dialects.registry import DIALECTS
from cepbook.testing.markdown import CHECK_FENCES, FencedBlock, Section, sections
from cepbook.testing.trace import ScenarioError, TraceStep, parse_steps
from cepbook.testing.values import ValueSyntaxError, parse_value

SUBJECT_FENCES = tuple(DIALECTS)
FENCES = (*SUBJECT_FENCES, *CHECK_FENCES, "config", "error")

_REFUSES = re.compile(r"(?P<engine>\S+?)(?:\s+(?:—|–|--|-)\s+|:\s+)(?P<reason>.+)\Z")
_SUBJECT = rf"(?:invalid[ \t]+)?(?:{'|'.join(map(re.escape, SUBJECT_FENCES))})(?!\S)"
_COLLECTED = re.compile(rf"^ {{0,3}}(?:`{{3,}}|~{{3,}})[ \t]*{_SUBJECT}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ConfigSetting:
    """One ``key = JSON`` line. For ``variable NAME = …`` the key is ``variable`` and `subject` the name."""

    key: str
    subject: str | None
    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class ConfigFence:
    """A ``config`` fence."""

    settings: tuple[ConfigSetting, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ModuleFence:
    """An ``epl [id]`` fence: a module to compile and deploy. Without an id the first is ``main``, then ``main-2``."""

    epl: str
    id: str
    line: int


@dataclass(frozen=True, slots=True)
class QueryFence:
    """A fence ``DIALECT NAME`` of another dialect than EPL, deployed as the statement `name`."""

    dialect: str
    name: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class TraceFence:
    """A ``trace`` fence."""

    steps: tuple[TraceStep, ...]
    line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class ErrorFence:
    """An ``error`` fence: the expected diagnostic."""

    text: str
    line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class InvalidFence:
    """An ``invalid [dialect]`` or ``invalid-query`` fence: text that must be refused with a diagnostic."""

    text: str
    dialect: str
    query: bool
    error: ErrorFence | None
    line: int
    last_line: int


Fence = ConfigFence | ModuleFence | QueryFence | TraceFence | InvalidFence


@dataclass(frozen=True, slots=True)
class RefusalLine:
    """A ``refuses: ENGINE — reason`` line: the engine does not cover the case."""

    engine: str
    reason: str
    line: int


@dataclass(frozen=True, slots=True)
class ScenarioCase:
    """One case. `line` is that of its heading, `last_line` the last one before the next heading.

    `oracle` names the reference implementation from which the reactions were recorded. Without one, they were written
    by hand or recorded from cepbook, and `evidence` may explain why they are right.
    """

    name: str
    line: int
    last_line: int
    prose: str
    tags: tuple[str, ...]
    oracle: str | None
    evidence: str | None
    refuses: tuple[RefusalLine, ...]
    fences: tuple[Fence, ...]

    def refusal_of(self, engine: str) -> RefusalLine | None:
        """Return the declaration that `engine` does not cover this case; None without one."""
        return next((r for r in self.refuses if r.engine == engine), None)


@dataclass(frozen=True, slots=True)
class File:
    """A scenario file. `source` is its exact text."""

    path: Path
    source: str
    cases: tuple[ScenarioCase, ...]


def read(path: Path) -> File:
    """Read a scenario file. Errors: `ScenarioError` for the first malformed line."""
    source = path.read_text(encoding="utf-8")
    refuse_headless_case(source, path)
    return File(path, source, tuple(parse_case(section, path) for section in case_sections(source)))


def is_scenario(source: str) -> bool:
    """Return whether a Markdown text is a scenario file: a case holds EPL or a query of another dialect.

    A document with mere EPL snippets is none, nor is one that shows a scenario file inside a longer fence. A text whose
    case lacks its heading counts as a scenario file that cannot be read (`headless_case`).
    """
    if _COLLECTED.search(source) is None:
        return False
    cases = case_sections(source)
    return any(_has_subject(section) for section in cases) or headless_case(source) is not None


def _has_subject(section: Section) -> bool:
    return any(re.match(_SUBJECT, block.info) for block in section.blocks)


def headless_case(source: str) -> int | None:
    """Return the line of the first block that would be a case but has no heading above; None without one."""
    first = next((s for s in sections(source) if not s.level), None)
    if first is None or not _has_subject(first) or not any(_kind(b) in CHECK_FENCES for b in first.blocks):
        return None
    return next(block.line for block in first.blocks if _kind(block) in FENCES)


def refuse_headless_case(source: str, path: Path) -> None:
    """Raise `ScenarioError` if a case lacks its heading."""
    line = headless_case(source)
    if line is not None:
        raise ScenarioError(path, line, "a case needs a heading above its blocks, as in '## what happens'")


def case_sections(source: str) -> tuple[Section, ...]:
    """Return the sections that are cases: a heading followed by a trace, or by text that must be refused."""
    return tuple(s for s in sections(source) if s.level and any(_kind(b) in CHECK_FENCES for b in s.blocks))


def parse_case(section: Section, path: Path) -> ScenarioCase:
    """Parse one case. Errors: `ScenarioError` with `path` and the line."""
    tags: list[str] = []
    facts: dict[str, str] = {}
    refuses: list[RefusalLine] = []
    prose: list[str] = []
    for number, line in section.prose:
        key, colon, rest = line.partition(":")
        if not colon or key not in ("tags", "oracle", "evidence", "refuses"):
            prose.append(line)
        elif key == "refuses":
            refuses.append(_refuses(rest.strip(), path, number))
        else:
            _read_facts(line, tags, facts)
    return ScenarioCase(
        name=section.title,
        line=section.line,
        last_line=section.last_line,
        prose="\n".join(prose).strip(),
        tags=tuple(tags),
        oracle=facts.get("oracle"),
        evidence=facts.get("evidence"),
        refuses=tuple(refuses),
        fences=tuple(_fences(section, path)),
    )


def _read_facts(line: str, tags: list[str], facts: dict[str, str]) -> None:
    """Read ``tags: a, b; oracle: esper 9.0.0; unordered``: facts by name. A word without a name is a further tag."""
    for fact in line.split(";"):
        key, colon, value = fact.strip().partition(":")
        if not colon:
            tags.extend([key.strip()] if key.strip() else [])
        elif key == "tags":
            tags.extend(tag.strip() for tag in value.split(",") if tag.strip())
        else:
            facts[key.strip()] = value.strip()


def _refuses(text: str, path: Path, line: int) -> RefusalLine:
    match = _REFUSES.match(text)
    if match is None:
        raise ScenarioError(path, line, "expected 'refuses: ENGINE — reason'")
    return RefusalLine(match["engine"], match["reason"].strip(), line)


def _kind(block: FencedBlock) -> str:
    return block.info.split(maxsplit=1)[0] if block.info else ""


def _fences(section: Section, path: Path) -> Iterator[Fence]:
    blocks = [block for block in section.blocks if _kind(block) in FENCES]
    modules = 0
    for index, block in enumerate(blocks):
        kind, _, argument = block.info.partition(" ")
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        match kind:
            case "config":
                yield _config(block, path)
            case "epl":
                modules += 1
                default = "main" if modules == 1 else f"main-{modules}"
                yield ModuleFence("\n".join(block.lines), argument.strip() or default, block.line)
            case _ if kind in SUBJECT_FENCES:
                if not argument.strip():
                    raise ScenarioError(path, block.line, f"a fence '{kind}' needs the name of its statement")
                yield QueryFence(kind, argument.strip(), "\n".join(block.lines), block.line)
            case "trace":
                steps = parse_steps(block.lines, block.line + 1, path)
                yield TraceFence(steps, block.line, block.last_line)
            case "error":
                if index == 0 or not _kind(blocks[index - 1]).startswith("invalid"):
                    raise ScenarioError(path, block.line, "an 'error' fence belongs directly below an 'invalid' fence")
            case _:
                yield _invalid(block, following, path)


def _invalid(block: FencedBlock, following: FencedBlock | None, path: Path) -> InvalidFence:
    kind, _, argument = block.info.partition(" ")
    dialect = argument.strip() or "epl"
    if dialect not in SUBJECT_FENCES:
        raise ScenarioError(path, block.line, f"'{dialect}' is no dialect; there are {', '.join(SUBJECT_FENCES)}")
    error = None
    if following is not None and _kind(following) == "error":
        error = ErrorFence("\n".join(following.lines), following.line, following.last_line)
    return InvalidFence("\n".join(block.lines), dialect, kind == "invalid-query", error, block.line, block.last_line)


def _config(block: FencedBlock, path: Path) -> ConfigFence:
    settings = []
    for number, line in enumerate(block.lines, block.line + 1):
        if not line.strip():
            continue
        left, equals, right = line.partition("=")
        words = left.split()
        if not equals or len(words) not in (1, 2):
            raise ScenarioError(path, number, "expected 'key = JSON' or 'key NAME = JSON'")
        try:
            value = parse_value(right)
        except ValueSyntaxError as error:
            raise ScenarioError(path, number, str(error)) from None
        settings.append(ConfigSetting(words[0], words[1] if len(words) == 2 else None, value, number))
    return ConfigFence(tuple(settings), block.line)
