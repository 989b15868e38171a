"""Completion in EPL cells: event types, properties, windows, functions, statement names, keywords.

A matcher of IPython's completer (API version 2). In our cells it suppresses all others, so that Python names do not
show up in EPL; everywhere else it stays silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from cepbook.editor.cursor import CursorPosition, NamesInScope, cursor_position
from cepbook.editor.offers import FRAGMENT, Offer, SeenValues, starting_with, text_offers
from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost

_WORD = re.compile(r"\S*\Z")


def make_matcher(host: NotebookHost) -> Callable[[CompletionContext], Any]:
    """The matcher for the workbench of `host`."""

    def matcher(context: CompletionContext) -> Any:
        lines = context.full_text.split("\n")
        cursor = sum(len(line) + 1 for line in lines[: context.cursor_line]) + context.cursor_position
        return complete(host, context.full_text, cursor)

    decorate: Any = context_matcher  # IPython does not annotate what it returns
    dressed: Callable[[CompletionContext], Any] = decorate(identifier="cepbook.epl", priority=1000)(matcher)
    return dressed


def complete(host: NotebookHost, code: str, cursor: int) -> Any:
    """The matcher's answer for offset `cursor` of `code`: offers that begin with what is typed, ours only."""
    at = cursor_position(code, cursor)
    if at is None:
        return {"completions": []}
    pattern = _WORD if at.kind in ("line", "options") else FRAGMENT
    match = pattern.search(at.before)
    fragment = match.group() if match is not None else ""
    try:
        scope = NamesInScope(host.workbench.runtime, at)
    except UsageError:  # the workbench is gone; the next magic will say so
        return {"completions": []}
    typed = at.before[: len(at.before) - len(fragment)]
    offers = list(starting_with(fragment, _offers(host, at, scope, typed)))
    # IPython ignores `suppress` when there is nothing to offer, and jedi would answer: offer what is there already.
    completions = [SimpleCompletion(text, type=kind) for text, kind in offers] or [SimpleCompletion(fragment)]
    return {"completions": completions, "suppress": True, "ordered": True, "matched_fragment": fragment}


def _offers(host: NotebookHost, at: CursorPosition, scope: NamesInScope, typed: str) -> Iterator[Offer]:
    command = host.command(at.magic)
    match at.kind:
        case "options" if command is not None and command.options is not None:
            yield from ((option, "keyword") for option in command.options.names)
        case "line" if command is not None and command.complete is not None:
            yield from command.complete(host, typed.split())
        case _:
            seen = SeenValues(host.workbench.event_counts, host.workbench.seen_texts)
            yield from text_offers(seen, at, scope, typed)
