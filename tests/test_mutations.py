"""Whatever is done to a text, it is refused with a diagnostic or deployed, soon, and a refusal leaves nothing behind.

`CEPBOOK_MUTATIONS` is the number of texts, `CEPBOOK_SEED` the first seed.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.mutations import batches

COUNT = int(os.environ.get("CEPBOOK_MUTATIONS", "1200"))
SEED = int(os.environ.get("CEPBOOK_SEED", "8"))


@pytest.mark.histories
def test_mutated_texts_are_deployed_whole_or_refused() -> None:
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    for mutants in batches(SEED, COUNT):
        outcomes += mutants.outcomes
        failures += mutants.failures
    print(dict(outcomes))
    assert not failures, "\n".join(failures)
    for language in ("epl", "apama", "streamcruncher"):
        assert outcomes[language, "refused"] > COUNT // 20
        assert outcomes[language, "accepted"]
