"""Writing Python source: indented lines, each maybe owed to a span of EPL, and a table of constants.

No text of the user becomes code: every name in generated source was chosen here, and every value that
comes from EPL (property names, aliases, literals) enters through the constants table.
"""

from __future__ import annotations

import hashlib
import linecache
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from cepbook.errors import Span

_TEXTS_KEPT = 4096
_codes: OrderedDict[str, CodeType] = OrderedDict()  # oldest use first


def _compiled(text: str) -> CodeType:
    """The code of a module text. Statements that differ in constants only share it, and the processor's caches.

    Texts long out of use are forgotten, here and in `linecache`.
    """
    code = _codes.get(text)
    if code is None:
        filename = f"<cepbook {hashlib.sha1(text.encode()).hexdigest()[:12]}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        code = _codes[text] = compile(text, filename, "exec")
        if len(_codes) > _TEXTS_KEPT:
            _, oldest = _codes.popitem(last=False)
            linecache.cache.pop(oldest.co_filename, None)
    _codes.move_to_end(text)
    return code


# a name, other than of an attribute; generated code has no texts or comments in which one could stand
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


# what a running statement brings along, beside the constants
_PORTS = ("out", "push", "clock")


class SourceWriter:
    """The text of one generated module. `constants` is the namespace that it will run in.

    `bound` has, of each function written with `function`, the parameters in order that a running statement gives their
    default values.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.spans: dict[int, Span] = {}
        self.constants: dict[str, Any] = {}
        self.bound: dict[str, tuple[str, ...]] = {}
        self.tables: dict[str, str] = {}
        self.shared: dict[Any, str] = {}  # what the line to be written has evaluated already, by its name there
        self._depth = 0
        self._known: dict[tuple[type, Any], str] = {}
        self._temporaries = 0
        self._parts: list[Span] = []

    def line(self, text: str, span: Span | None = None) -> None:
        """Add one line at the current depth; an error raised there is shown at `span`.

        Parts that start with a `part` stand on lines of their own, and errors in them are shown at their own spans.
        """
        self.shared.clear()
        first, *rest = text.split("\n")
        self._add("    " * self._depth + first.rstrip() if first else "", span)
        for part in rest:
            number, _, code = part.partition("\t")
            self._add("    " * (self._depth + 2) + code.rstrip(), self._parts[int(number)])

    def part(self, span: Span) -> str:
        """What to put before code inside brackets that is to stand on a line of its own, owed to `span`."""
        self._parts.append(span)
        return f"\n{len(self._parts) - 1}\t"

    def _add(self, text: str, span: Span | None) -> None:
        self.lines.append(text)
        if span is not None:
            self.spans[len(self.lines)] = span

    @contextmanager
    def block(self, head: str, span: Span | None = None) -> Iterator[None]:
        """A compound statement: `head` and, indented, what is written inside the with-block."""
        if head.startswith("def ") and self.lines:
            self.line("")
        self.line(head, span)
        before = len(self.lines)
        self._depth += 1
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    @contextmanager
    def function(self, name: str, arguments: Sequence[str], bound: Sequence[str] = ()) -> Iterator[None]:
        """A function of `arguments`; `bound` and the constants that it reads are parameters with default values.

        Locals are read fastest, and code without globals is as fast shared as alone. The values are bound later.
        What is called for a new group or a new batch only (``_name``) stays global: every default value costs each call
        a little.
        """
        head = len(self.lines) + bool(self.lines)
        with self.block("def head():"):
            yield
        body = "\n".join(self.lines[head + 1 :])
        read = frozenset(_NAME.findall(body)).difference(arguments, bound)
        known = dict.fromkeys((*_PORTS, *(c for c in self.constants if not c.startswith("_"))))
        self.bound[name] = (*bound, *(c for c in known if c in read))
        self.lines[head] = f"def {name}({', '.join((*arguments, *(f'{c}=None' for c in self.bound[name])))}):"

    def const(self, value: Any, prefix: str = "c") -> str:
        """The name under which generated code reads `value`; equal scalars share one name."""
        scalar = isinstance(value, (str, int, float, bool))
        key = (type(value), repr(value) if scalar else id(value))  # repr keeps 0.0 and -0.0 apart
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

    def table(self, name: str) -> str:
        """The name under which generated code reads the table `name`, which it gets when the statement starts."""
        if name not in self.tables:
            self.tables[name] = self.bind(f"table{len(self.tables)}", None)
        return self.tables[name]

    def temporary(self) -> str:
        """A fresh local name."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def load(self) -> dict[str, Any]:
        """Compile and run the module text; its functions are in the returned namespace.

        The text is in `linecache`, so tracebacks and debuggers show it. ``__source__`` is it and the constants.
        """
        namespace = dict(self.constants)
        namespace["__source__"] = self.text, self.constants
        namespace["__tables__"] = dict(self.tables)
        exec(_compiled(self.text), namespace)
        return namespace
