"""Marks by folder: tests below tests/spark and tests/browser run in stages of their own (`tools/check.py`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.soundness import flaws

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        folder = item.path.relative_to(HERE).parts[0]
        if folder in ("spark", "browser"):
            item.add_marker(folder)


def pytest_sessionstart() -> None:
    """What must hold between two rounds is looked at after every so many events and advances, in all tests."""
    for name in ("send", "advance"):
        setattr(Runtime, name, _watched(getattr(Runtime, name)))


def _watched(work: Callable[..., None]) -> Callable[..., None]:
    calls = depth = 0

    @wraps(work)
    def watched(runtime: Runtime, *args: Any, **options: Any) -> None:
        nonlocal calls, depth
        depth += 1
        try:
            work(runtime, *args, **options)
        finally:
            depth -= 1
        calls += 1
        if depth == 0 and calls % 7 == 0:
            assert flaws(runtime) == []

    return watched
