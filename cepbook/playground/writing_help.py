"""Completion, help and formatting in the two texts of the page, by the rules of cells (`cepbook.editor`)."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.editor.cursor import CursorPosition, NamesInScope, cursor_position
from cepbook.editor.offers import FRAGMENT, NOTHING_SEEN, Offer, starting_with, text_offers
from cepbook.editor.word_help import word_help
from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.formatter import format_epl
from cepbook.lang.syntax.source_text import EPL
from cepbook.playground.module_cells import module_cells


def completions(runtime: Runtime, text: str, offset: int, *, in_module: bool) -> tuple[int, list[Offer]]:
    """Return the length of the word before `offset`, and what can stand there. Names are those of `runtime`."""
    at = _position(text, offset, in_module)
    if at is None:
        return 0, []
    match = FRAGMENT.search(at.before)
    fragment = "" if match is None else match.group()
    typed = at.before[: len(at.before) - len(fragment)]
    offers = text_offers(NOTHING_SEEN, at, NamesInScope(runtime, at), typed)
    return len(fragment), list(starting_with(fragment, offers))


def help_at(runtime: Runtime, text: str, offset: int, *, in_module: bool) -> str | None:
    """Return what the word at `offset` means; None if nothing is known about it."""
    at = _position(text, offset, in_module)
    return None if at is None else word_help(runtime, at, _names)


def format_module(module: str) -> str:
    """Return the module with its cells of EPL laid out anew. Errors: ParseError for the first that is not EPL."""
    formatted = []
    for cell in module_cells(module)[0]:
        body = format_epl(cell.text).rstrip("\n") if cell.dialect == EPL else cell.text
        formatted.append(f"{cell.head}\n{body}" if cell.head else body)
    return "\n\n".join(formatted) + "\n"


def _position(text: str, offset: int, in_module: bool) -> CursorPosition | None:
    """Return the place of an offset as that of the cursor in a cell."""
    if not in_module:
        return cursor_position(f"%%scenario\n{text}", offset + len("%%scenario\n"))
    for cell in reversed(module_cells(text)[0]):
        if cell.start <= offset:
            head = f"{cell.head or '%%epl'}\n"
            end = max(offset, cell.start + len(cell.text))
            return cursor_position(head + text[cell.start : end], len(head) + offset - cell.start)
    return cursor_position(f"%%epl\n{text}", offset + len("%%epl\n"))


def _names(scope: NamesInScope, word: str) -> Iterator[str]:
    event_type = scope.event_types.get(word) or scope.aliases.get(word)
    if event_type is not None:
        columns = (f"  {name}  {of}" for name, of in event_type.properties.items())
        yield "\n".join([f"event type {event_type.name}", *columns])
    if word in scope.variables:
        yield f"variable {word} {scope.variables[word]}"
    if word in scope.contexts:
        yield f"context {word}: {scope.contexts[word].kind}"
    if word in scope.statements:
        yield f"statement {word}\n{scope.statements[word].epl.strip()}"
