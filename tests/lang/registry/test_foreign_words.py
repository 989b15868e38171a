"""The words of other systems: every example runs, and every form of a call binds with the sample arguments."""

from __future__ import annotations

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.foreign_words import FOREIGN_TYPES, FOREIGN_WORDS, ForeignWord
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA, WINDOWS

ROWS = {row.name: row for row in FOREIGN_WORDS.values()}


def deploy(epl: str) -> None:
    runtime = Runtime()
    runtime.deploy(EXAMPLE_SCHEMA)
    runtime.deploy(epl)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_example_runs(row: ForeignWord) -> None:
    deploy(row.example)


@pytest.mark.parametrize("type_", sorted(set(FOREIGN_TYPES.values())))
def test_types_exist(type_: str) -> None:
    deploy(f"create schema X(a {type_})")


def test_no_word_is_a_word_of_epl() -> None:
    own = {*AGGREGATES, *FUNCTIONS}
    assert not own & {name for name, row in FOREIGN_WORDS.items() if row.kind == "call"}
    assert not set(WINDOWS) & {name for name, row in FOREIGN_WORDS.items() if row.kind == "window"}


def test_a_call_becomes_its_form() -> None:
    assert FOREIGN_WORDS["upper"].hint(["a.b"]) == "write `a.b.toUpperCase()`"
    assert FOREIGN_WORDS["nvl"].hint(["x", "0"]) == "write `coalesce(x, 0)`"
    assert FOREIGN_WORDS["greatest"].hint(["x", "y", "z"]) == "write `max(x, y, z)`"
    assert FOREIGN_WORDS["lead"].hint(["x"]) == FOREIGN_WORDS["lead"].doc
