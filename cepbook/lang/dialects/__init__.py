"""The dialects that cepbook reads. A dialect is a function from text to `ast.Module` that raises `ParseError`."""

from __future__ import annotations

from collections.abc import Callable

from cepbook.lang import ast
from cepbook.lang.dialects import epl

DIALECTS: dict[str, Callable[[str], ast.Module]] = {
    "epl": epl.parse,
}
