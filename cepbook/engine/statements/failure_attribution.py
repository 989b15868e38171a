"""Attribution of a failure: to a statement or its listener, and to a place in the EPL text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.delivery.outlet import call_listener
from cepbook.errors import Diagnostic, StatementError, exception_text
from cepbook.lang.syntax.source_text import dialect_of


def traceback_namespaces(failure: Exception) -> Iterator[dict[str, Any]]:
    """Yield the global namespaces of the functions in a traceback, outermost first."""
    trace = failure.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_globals
        trace = trace.tb_next


def statement_error(
    failure: Exception, name: str, programs: Sequence[StatementProgram], source: str, *, query: bool = False
) -> StatementError:
    """Return `failure` as an error for users; `programs` are those of the statement and its subqueries."""
    span = None
    listener = False
    trace = failure.__traceback__
    while trace is not None:
        listener |= trace.tb_frame.f_code is call_listener.__code__
        for program in programs:
            if trace.tb_frame.f_globals is program.namespace:
                span = program.spans.get(trace.tb_lineno, span)
        trace = trace.tb_next
    what = exception_text(failure)
    if listener or span is None:
        subject = f"a listener of statement `{name}`" if listener else f"statement `{name}`"
        text = f"the query failed: {what}" if query else f"{subject} failed on an event: {what}"
        return StatementError(name, text, None, failure)
    fact = "the query failed" if query else f"statement `{name}` failed on an event"
    text_with_source = Diagnostic(fact, what, span).render(source, dialect_of(source))
    return StatementError(name, text_with_source, span, failure)
