"""What help says of clauses: every example can be deployed, and every word is one that the lexer knows."""

from __future__ import annotations

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.aggregates import AGGREGATES
from cepbook.lang.bind.call import BUILT_IN
from cepbook.lang.clauses import CLAUSES, OF_WORD
from cepbook.lang.dialects.epl_lexer import UNITS
from cepbook.lang.functions import FUNCTIONS
from cepbook.lang.windows import WINDOWS
from cepbook.magics.scope import keywords
from cepbook.magics.topics import help_text

TYPES = "create schema A(id string, price double); create schema B(id string, price double)"


@pytest.mark.parametrize("name", CLAUSES)
def test_the_example_runs_and_has_the_word(name: str) -> None:
    row = CLAUSES[name]
    runtime = Runtime()
    runtime.deploy(TYPES)
    runtime.deploy(row.example)
    assert any(word in row.example.lower() for word in row.words)


def test_words_are_keywords() -> None:
    assert {word for word in OF_WORD if word.isidentifier()} <= {*keywords(), *BUILT_IN, *UNITS} | {
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
    known = {*OF_WORD, *functions, *AGGREGATES, *WINDOWS}
    assert sorted({*keywords(), *BUILT_IN, *UNITS} - known) == []
    for word in {*keywords(), *BUILT_IN}:
        assert str(help_text((), word))
