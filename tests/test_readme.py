"""README.md is short, and its blocks print what it shows; those for Spark are run by tests/spark/test_documents.py."""

from __future__ import annotations

import re

import pytest

from tests import documents

MOST = 10_000  # bytes


def test_it_is_short() -> None:
    assert len(documents.README.read_bytes()) <= MOST


def test_every_block_prints_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPBOOK_PROGRESS", "off")
    assert documents.runner.check(documents.README) > 5


def test_own_data_take_twenty_lines() -> None:
    """The section shows the reader's own data; what is to be typed fits into twenty lines."""
    text = documents.README.read_text(encoding="utf-8")
    section = text.partition("\n## Your own data\n")[2].partition("\n## ")[0]
    typed = [block for block in documents.runner.blocks(section) if block.language in ("python", "epl")]
    lines = [line for block in typed for line in block.text.splitlines() if line.strip()]
    assert typed and len(lines) <= 20


def test_it_begins_with_a_picture_and_own_data() -> None:
    text = documents.README.read_text(encoding="utf-8")
    assert text.index("](docs/images/") < text.index("\n## ")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE)[0] == "Your own data"
