"""Text that knows its dialect. Plain text is EPL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EPL = "epl"


class SourceText(str):
    """A module in the language `dialect`, with what was said of it beside the text.

    `settings` are plain data (JSON), those of the dialect's row in `lang.dialects.DIALECTS`; ``name`` is mostly that of
    the statement that the text is deployed as.
    """

    __slots__ = ("dialect", "settings")
    dialect: str
    settings: Mapping[str, Any]

    def __new__(cls, text: str, dialect: str = EPL, settings: Mapping[str, Any] | None = None) -> SourceText:
        made = super().__new__(cls, text)
        made.dialect = dialect
        made.settings = dict(settings or {})
        return made

    def __reduce__(self) -> tuple[type[SourceText], tuple[str, str, dict[str, Any]]]:
        return SourceText, (str(self), self.dialect, dict(self.settings))


def dialect_of(text: str) -> str:
    """The name of the dialect that `text` is written in."""
    return text.dialect if isinstance(text, SourceText) else EPL


def settings_of(text: str) -> Mapping[str, Any]:
    """What was said of `text` beside it."""
    return text.settings if isinstance(text, SourceText) else {}
