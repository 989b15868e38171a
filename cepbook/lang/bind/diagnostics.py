"""Collect the diagnostics of a module, so that one report names all problems."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

from cepbook.errors import Diagnostic, Span
from cepbook.errors import did_you_mean as did_you_mean
from cepbook.errors import nearest_or_known_names as nearest_or_known_names


class AlreadyReported(Exception):
    """Leaves the binding of one expression or clause whose problem is already reported."""


@dataclass(slots=True)
class DiagnosticCollector:
    """The diagnostics of a module, each once."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        problem = Diagnostic(code, message, span, hint)
        if problem not in self.found:
            self.found.append(problem)

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Report a problem and leave the current expression."""
        self.add(code, message, span, hint)
        raise AlreadyReported(message)

    def suggest(self, since: int, code: str, hint: str) -> None:
        """Give `hint` to the diagnostics with `code` that were added since position `since` and have no hint."""
        later = self.found[since:]
        self.found[since:] = [replace(d, hint=hint) if d.hint is None and d.code == code else d for d in later]

    def unsupported(self, what: str, span: Span, hint: str | None = None) -> None:
        self.add("not-supported-yet", f"not supported yet: {what}", span, hint)
