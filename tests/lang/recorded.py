"""Files of wrong texts and the diagnostics that a user sees for them; ``--record`` writes the diagnostics anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_CASE = re.compile(r"```text\n(?P<epl>.*?)```\n\n```error\n(?P<error>.*?)```", re.DOTALL)


def cases(file: Path) -> list[tuple[str, str]]:
    """The (text, recorded diagnostics) pairs of `file`."""
    return _CASE.findall(file.read_text(encoding="utf-8"))


def check(file: Path, epl: str, error: str, refusal: Exception, request: pytest.FixtureRequest) -> None:
    """The refusal of `epl` must show what `file` has recorded; with ``--record`` it is written instead."""
    shown = f"{refusal}\n"
    if shown != error and request.config.getoption("--record", default=False):
        content = file.read_text(encoding="utf-8")
        file.write_text(
            content.replace(f"{epl}```\n\n```error\n{error}", f"{epl}```\n\n```error\n{shown}"), encoding="utf-8"
        )
        return
    assert shown == error
