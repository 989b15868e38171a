"""The examples of README.md, as its tests need them."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
SPARK = ".spark("
KAFKA = '.format("kafka")'


def fences() -> list[tuple[str, str]]:
    """(language, text) of every fenced block in order; blocks inside a longer fence belong to its text."""
    found = re.findall(r"^(`{3,})(\w+)\n(.*?)^\1$", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [(language, text) for _, language, text in found]


def scripts() -> list[tuple[str, str]]:
    """(Python, what it prints) of every Python block, but for that which needs a broker."""
    blocks = fences()
    after = [*blocks[1:], ("", "")]
    pairs = zip(blocks, after, strict=True)
    return [(text, below) for (language, text), (_, below) in pairs if language == "python" and KAFKA not in text]


def of_kafka() -> str:
    """The Python block that needs a broker."""
    (found,) = (text for language, text in fences() if language == "python" and KAFKA in text)
    return found
