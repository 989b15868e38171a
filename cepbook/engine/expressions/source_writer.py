"""Writing Python source: indented lines, the EPL span of each line, and a table of constants.

No text of the user becomes code. Every name in generated source is chosen here, and every value of EPL (property names,
aliases, literals) enters through the table of constants.
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
from cepbook.lang.plan.placeholder import Placeholder, constant_identity
from cepbook.lang.types import Type

_TEXTS_KEPT = 4096
_codes: OrderedDict[str, CodeType] = OrderedDict()  # oldest use first


def _identity(value: Any) -> Any:
    if type(value) is Type:
        return value, value.primitive, value.dated
    return repr(value) if isinstance(value, (str, int, float, bool)) else id(value)  # repr keeps 0.0 and -0.0 apart


def _compiled(text: str) -> CodeType:
    """Return the code object of a module text. Statements that differ only in constants share it, and so share the
    processor's caches. Texts that have been unused for long are dropped, here and in `linecache`.
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


# A name that is not an attribute. Generated code has no strings or comments that could contain one.
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


# The names that a running statement binds, beside the constants.
_PORTS = ("out", "push", "clock")


class _Block:
    """The body of a compound statement. A statement has dozens, and a generator as context manager costs more."""

    __slots__ = ("_start", "_writer")

    def __init__(self, writer: SourceWriter, start: int) -> None:
        self._writer = writer
        self._start = start

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._writer.end_block(self._start)


class SourceWriter:
    """The text of one generated module. `constants` is the namespace in which it runs. `bound` lists, for each function
    written with `function`, the parameters that a running statement gives default values.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.spans: dict[int, Span] = {}
        self.constants: dict[str, Any] = {}
        self.bound: dict[str, tuple[str, ...]] = {}
        self.tables: dict[str, str] = {}
        self.shared: dict[Any, str] = {}  # names of expressions that the next line has already evaluated
        self._depth = 0
        self._known: dict[tuple[type, Any], str] = {}
        self._temporaries = 0
        self._parts: list[Span] = []

    def line(self, text: str, span: Span | None = None) -> None:
        """Add one line at the current depth. An error raised there is shown at `span`. Segments that begin with a
        `part` stand on lines of their own, and errors in them are shown at their own spans.
        """
        self.shared.clear()
        first, *rest = text.split("\n")
        self._add("    " * self._depth + first.rstrip() if first else "", span)
        for segment in rest:
            number, _, code = segment.partition("\t")
            self._add("    " * (self._depth + 2) + code.rstrip(), self._parts[int(number)])

    def part(self, span: Span) -> str:
        """Return the prefix of code inside brackets that stands on a line of its own, with its own `span`."""
        self._parts.append(span)
        return f"\n{len(self._parts) - 1}\t"

    def _add(self, text: str, span: Span | None) -> None:
        self.lines.append(text)
        if span is not None:
            self.spans[len(self.lines)] = span

    def block(self, head: str, span: Span | None = None) -> _Block:
        """Write a compound statement: `head`, and the body of the with-block indented."""
        if head.startswith("def ") and self.lines:
            self.line("")
        self.line(head, span)
        self._depth += 1
        return _Block(self, len(self.lines))

    def end_block(self, start: int) -> None:
        """End the block whose body begins after `start` lines."""
        if len(self.lines) == start:
            self.line("pass")
        self._depth -= 1

    @contextmanager
    def function(self, name: str, arguments: Sequence[str], bound: Sequence[str] = ()) -> Iterator[None]:
        """Write a function of `arguments`; `bound` and the constants that it reads are parameters with default values.

        Locals are read fastest, and code without globals stays fast when statements share it. The values are bound
        later. Names that begin with ``_`` are called only for new groups or batches and stay global, since every
        default value costs each call a little.
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
        """Return the name under which generated code reads `value`. Equal scalars and types share one name."""
        key = (type(value), _identity(value))
        name = self._known.get(key)
        if name is None:
            name = f"{prefix}{len(self.constants)}"
            self._known[key] = name
            self.constants[name] = value
        return name

    def literal(self, value: Any) -> str:
        """Return the name under which generated code reads a constant of the EPL text, or a placeholder for one.

        Equal constants share a name, but none with a value of the generator itself: the text does not depend on what
        stands for a constant.
        """
        key = (Placeholder, constant_identity(value))
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = f"c{len(self.constants)}"
            self.constants[name] = value
        return name

    def bind(self, name: str, value: Any) -> str:
        """Put `value` into the namespace under a fixed name."""
        self.constants[name] = value
        return name

    def table(self, name: str) -> str:
        """Return the name of a table in generated code. The table itself is bound when the statement starts."""
        if name not in self.tables:
            self.tables[name] = self.bind(f"table{len(self.tables)}", None)
        return self.tables[name]

    def temporary(self) -> str:
        """Return a new local name."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def load(self, constants: dict[str, Any] | None = None, text: str | None = None) -> dict[str, Any]:
        """Compile and run the module with `constants`, or with its own; return its namespace. `text` is its text, if
        that is known. It is in `linecache`, so tracebacks and debuggers show it. ``__source__`` holds the text and the
        constants.
        """
        text, bound = text or self.text, self.constants if constants is None else constants
        namespace = dict(bound)
        namespace["__source__"] = text, bound
        namespace["__tables__"] = dict(self.tables)
        exec(_compiled(text), namespace)
        return namespace
