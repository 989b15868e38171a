"""Whatever is done to a statement, it is refused with a diagnostic or it is a statement, and soon."""

from __future__ import annotations

import random

import pytest

from tests.lang.mutations import mutant, outcome


@pytest.mark.histories
@pytest.mark.parametrize("seed", range(4))
def test_mutated_statements_give_diagnostics(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        text, catalog = mutant(chance)
        assert outcome(text, catalog) in ("accepted", "refused"), text
