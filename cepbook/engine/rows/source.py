"""Writing Python source: indented lines, each maybe owed to a span of EPL, and a table of constants.

No text of the user becomes code: every name in generated source was chosen here, and every value that
comes from EPL (property names, aliases, literals) enters through the constants table.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from cepbook.errors import Span

_serial = itertools.count(1)


class Source:
    """The text of one generated module. `constants` is the namespace that it will run in."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.spans: dict[int, Span] = {}
        self.constants: dict[str, Any] = {}
        self._depth = 0
        self._known: dict[tuple[type, Any], str] = {}
        self._temporaries = 0

    def line(self, text: str, span: Span | None = None) -> None:
        """Add one line at the current depth; an error raised there is shown at `span`."""
        self.lines.append("    " * self._depth + text)
        if span is not None:
            self.spans[len(self.lines)] = span

    @contextmanager
    def block(self, head: str, span: Span | None = None) -> Iterator[None]:
        """A compound statement: `head` and, indented, what is written inside the with-block."""
        self.line(head, span)
        before = len(self.lines)
        self._depth += 1
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def const(self, value: Any, prefix: str = "c") -> str:
        """The name under which generated code reads `value`; equal scalars share one name."""
        key = (type(value), value) if isinstance(value, (str, int, float, bool)) else (type(value), id(value))
        name = self._known.get(key)
        if name is None:
            name = f"{prefix}{len(self.constants)}"
            self._known[key] = name
            self.constants[name] = value
        return name

    def bind(self, name: str, value: Any) -> str:
        """Put `value` into the namespace under a fixed name of our own choice."""
        self.constants[name] = value
        return name

    def temporary(self) -> str:
        """A fresh local name."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def load(self) -> dict[str, Any]:
        """Compile and run the module text; its functions are in the returned namespace.

        The text is in `linecache`, so tracebacks and debuggers show it; ``__filename__`` names it.
        """
        filename = f"<cepbook statement {next(_serial)}>"
        text = self.text
        code: CodeType = compile(text, filename, "exec")
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace = dict(self.constants)
        namespace["__filename__"] = filename
        exec(code, namespace)
        return namespace
