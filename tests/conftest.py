"""Marks by folder: tests below tests/spark and tests/browser run in stages of their own (`tools/check.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        folder = item.path.relative_to(HERE).parts[0]
        if folder in ("spark", "browser"):
            item.add_marker(folder)
