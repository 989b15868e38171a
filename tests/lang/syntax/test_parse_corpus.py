"""Every EPL text of the corpus is EPL to the parser: also those that no engine runs yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cepbook.lang.syntax.reader.parser import parse_epl

CORPUS = Path(__file__).parents[2] / "corpus"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = sorted(CORPUS.rglob("*.md"))


def epl_texts(markdown: str) -> Iterator[str]:
    """The modules in ``epl`` fences and the queries in traces."""
    for words, body in FENCE.findall(markdown):
        kind = words.split()[0] if words.split() else ""
        if kind == "epl":
            yield body
        elif kind == "trace":
            yield from (line[len("query ") :] for line in body.splitlines() if line.startswith("query "))


def test_fences_are_found() -> None:
    text = "```epl d1\nselect 1\n```\n```trace\nquery select *\n    = a=1\n```\n"
    assert list(epl_texts(text)) == ["select 1\n", "select *"]


@pytest.mark.histories
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(CORPUS).as_posix())
def test_corpus_file_parses(file: Path) -> None:
    for text in epl_texts(file.read_text(encoding="utf-8")):
        module = parse_epl(text)
        for statement in module.statements:
            start, end = statement.span.start, statement.span.end
            assert 0 <= start < end <= len(text)
            assert text[start:end] == text[start:end].strip(), "a statement's span has no blanks around it"
