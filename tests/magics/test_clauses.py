"""What help says of clauses: every example can be deployed, and every word is one that the lexer knows."""

from __future__ import annotations

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.clauses import CLAUSES, OF_WORD
from cepbook.magics.scope import keywords

TYPES = "create schema A(id string, price double); create schema B(id string, price double)"


@pytest.mark.parametrize("name", CLAUSES)
def test_the_example_runs_and_has_the_word(name: str) -> None:
    row = CLAUSES[name]
    runtime = Runtime()
    runtime.deploy(TYPES)
    runtime.deploy(row.example)
    assert any(word in row.example.lower() for word in row.words)


def test_words_are_keywords() -> None:
    assert {word for word in OF_WORD if word.isidentifier()} <= set(keywords()) | {
        "timer",
        "interval",
        "within",
        "match_recognize",
        "grouped_delivery",
        "discrete_delivery",
    }
