"""Source text with its dialect. Plain text is EPL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EPL = "epl"


class SourceText(str):
    """A module in the language `dialect`.

    `settings` are plain data (JSON), those of the dialect's row in `dialects.registry.DIALECTS`; ``name`` is mostly
    that of the statement that the text is deployed as.
    """

    __slots__ = ("dialect", "settings")
    dialect: str
    settings: Mapping[str, Any]

    def __new__(cls, text: str, dialect: str = EPL, settings: Mapping[str, Any] | None = None) -> SourceText:
        source = super().__new__(cls, text)
        source.dialect = dialect
        source.settings = dict(settings or {})
        return source

    def __reduce__(self) -> tuple[type[SourceText], tuple[str, str, dict[str, Any]]]:
        return SourceText, (str(self), self.dialect, dict(self.settings))


def dialect_of(text: str) -> str:
    return text.dialect if isinstance(text, SourceText) else EPL


def settings_of(text: str) -> Mapping[str, Any]:
    """Return the settings of `text`; plain text has none."""
    return text.settings if isinstance(text, SourceText) else {}
