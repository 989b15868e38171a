"""Parse EPL, the event processing language of Esper 8 and 9, into a syntax tree.

The grammar is in ``lang/syntax/grammar``. The tables of the LALR parser are built once and stored in the user's cache
directory. Trees are cached and shared, so nodes of the tree are immutable, and the one `STATEMENT_READER` has no state.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lark.exceptions import UnexpectedToken

from cepbook.errors import (
    MOST_PROBLEMS,
    MOST_WORDS,
    Diagnostic,
    ParseError,
    Span,
    rejecting_deep_nesting,
    too_long,
    unchecked_rest,
)
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.expression_reader import Misplaced
from cepbook.lang.syntax.reader.lexer import EplStatementLexer, StatementTokens, tokenize
from cepbook.lang.syntax.reader.parser_tables import load_parser
from cepbook.lang.syntax.reader.statement_reader import StatementReader
from cepbook.lang.syntax.reader.syntax_errors import diagnose
from cepbook.lang.syntax.reader.syntax_templates import StatementForm, SyntaxTemplates

GRAMMAR_FILES = (
    "grammar/common.lark",
    "grammar/expression.lark",
    "grammar/epl.lark",
    "grammar/pattern.lark",
    "grammar/match_recognize.lark",
)
STATEMENT_READER = StatementReader()


@lru_cache(maxsize=1)
def epl_parser() -> Any:
    """Return the parser of the tokens of one statement."""
    return load_parser("epl", "cepbook.lang.syntax", GRAMMAR_FILES, EplStatementLexer)


@lru_cache(maxsize=1)
def _templates() -> SyntaxTemplates:
    parse = epl_parser().parse
    return SyntaxTemplates(lambda piece: STATEMENT_READER.read(parse(piece)))


@rejecting_deep_nesting()
@lru_cache(maxsize=64)
def parse_epl(text: str) -> ast.Module:
    """Return the statements of `text`, which are separated by ``;``. Spans count characters of `text`.

    The 64 most recently parsed texts are cached, because a cell is parsed several times (for its names, to check it, to
    run it). Raises `ParseError` with the first syntax error of each invalid statement, or with all its text that is no
    token, but with no more than `MOST_PROBLEMS` of both; and BindError if a statement is nested too deeply.
    """
    statement_tokens, lexical_errors = tokenize(text)
    unreported = iter(lexical_errors)
    diagnostics: list[Diagnostic] = []
    statements: list[ast.Statement] = []
    forms: list[StatementForm | None] = []
    declarations: dict[str, Any] = {}
    for piece in statement_tokens:
        if not piece.tokens:
            continue
        if len(diagnostics) == MOST_PROBLEMS:
            diagnostics.append(unchecked_rest(Span(piece.tokens[0].start, piece.tokens[0].end)))
            break
        if lexical_errors:
            unreadable = [next(unreported) for token in piece.tokens if token.kind == "bad"]
            room = MOST_PROBLEMS - len(diagnostics)
            diagnostics += unreadable[:room]
            if len(unreadable) > room:
                diagnostics.append(unchecked_rest(unreadable[room].span))
                break
            if unreadable:
                continue
        parsed, form = _parse_piece(piece)
        if isinstance(parsed, Diagnostic):
            diagnostics.append(parsed)
        elif isinstance(parsed, ast.Statement):
            statements.append(parsed)
            forms.append(form)
        elif parsed[0] == "name" and "name" in declarations:
            span = Span(piece.tokens[0].start, piece.tokens[-1].end)
            fact = f"a second module `{parsed[1]}`: a text is one module"
            diagnostics.append(Misplaced(fact, span, "deploy the statements of each module by themselves").diagnostic)
        else:
            _declare(declarations, parsed)
    if diagnostics:
        raise ParseError(tuple(diagnostics), text)
    module = ast.Module(tuple(statements), **declarations, span=Span(0, len(text)))
    object.__setattr__(module, "forms", tuple(forms))
    return module


def _parse_piece(piece: StatementTokens) -> tuple[Any, StatementForm | None]:
    if len(piece.tokens) > MOST_WORDS:
        return too_long(len(piece.tokens), Span(piece.tokens[0].start, piece.tokens[0].end)), None
    try:
        return _templates().tree(piece)
    except UnexpectedToken as error:
        return diagnose(error, piece, epl_parser()), None
    except Misplaced as error:
        return error.diagnostic, None


def _declare(declarations: dict[str, Any], parsed: tuple[str, str]) -> None:
    kind, value = parsed
    if kind == "name":
        declarations["name"] = value
    elif kind:
        declarations[kind] = (*declarations.get(kind, ()), value)
