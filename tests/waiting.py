"""Waiting in tests: for a condition, never for a time that a loaded machine may need longer for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds; only a test that fails waits so long


async def until(condition: Callable[[], object]) -> None:
    """Give the event loop turns until `condition()` holds; TimeoutError after `PATIENCE`."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition that the test waits for does not come true")
        await asyncio.sleep(0.001)
