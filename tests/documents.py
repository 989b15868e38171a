"""README.md and docs as their tests need them: the runner of `tools/documents.py`, and single blocks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
LIMITS = DOCS / "reference" / "limits.md"
SPARK_PAGES = DOCS / "how-to" / "spark.md", DOCS / "how-to" / "spark_streams.md"
KAFKA = '.format("kafka")'


def tool(name: str) -> ModuleType:
    """The module `tools/NAME.py`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


runner: Any = tool("documents")


def written() -> list[Path]:
    """All pages that people write, and those that tools write. What the playground shows is none of them."""
    pages = (path for path in sorted(DOCS.rglob("*.md")) if not path.is_relative_to(DOCS / "playground"))
    return [README, ROOT / "CHANGELOG.md", *pages]


def blocks(path: Path, language: str) -> list[str]:
    """The texts of the blocks of one language."""
    return [block.text for block in runner.blocks(path.read_text(encoding="utf-8")) if block.language == language]


def of_kafka() -> str:
    """The Python block that needs the connector for Kafka."""
    (recipe,) = (text for text in blocks(SPARK_PAGES[1], "python") if KAFKA in text)
    return recipe
