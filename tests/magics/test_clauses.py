"""What help says of clauses: every example can be deployed, and every word is one that the lexer knows."""

from __future__ import annotations

import pytest

from cepbook.editor.cursor import grammar_keywords
from cepbook.engine.runtime import Runtime
from cepbook.lang.bind.expressions.call import BUILT_IN_FUNCTIONS
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.clauses import CLAUSE_OF_KEYWORD, CLAUSES, EXAMPLE_TYPES
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.reader.lexer import TIME_UNITS
from cepbook.magics.epl.help import help_text


@pytest.mark.parametrize("name", CLAUSES)
def test_the_example_runs_and_has_the_word(name: str) -> None:
    row = CLAUSES[name]
    runtime = Runtime()
    runtime.deploy(EXAMPLE_TYPES)
    runtime.deploy(row.example)
    assert any(word in row.example.lower() for word in row.words)


def test_words_are_keywords() -> None:
    assert {word for word in CLAUSE_OF_KEYWORD if word.isidentifier()} <= {
        *grammar_keywords(),
        *BUILT_IN_FUNCTIONS,
        *TIME_UNITS,
    } | {
        "timer",
        "interval",
        "within",
        "match_recognize",
        "grouped_delivery",
        "discrete_delivery",
        "any",
        "some",
    }


def test_every_keyword_and_every_call_has_help() -> None:
    """In the notebook one may ask for any word of the language."""
    functions = {name.lower() for name in FUNCTIONS}
    known = {*CLAUSE_OF_KEYWORD, *functions, *AGGREGATES, *WINDOWS}
    assert sorted({*grammar_keywords(), *BUILT_IN_FUNCTIONS, *TIME_UNITS} - known) == []
    for word in {*grammar_keywords(), *BUILT_IN_FUNCTIONS}:
        assert str(help_text((), word))
