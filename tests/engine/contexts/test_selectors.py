"""What is no selector of context partitions is refused when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.contexts.selectors import ById, ByKey, ByProperties, Nested
from cepbook.errors import UsageError


@pytest.mark.parametrize("levels", [ByKey("a"), {"K": 5}, {5: ById(1)}, 7])
def test_levels_are_selectors_by_name(levels: Any) -> None:
    with pytest.raises(UsageError, match="Nested takes selectors by the names of levels, not "):
        Nested(levels)


def test_a_predicate_is_a_function() -> None:
    with pytest.raises(UsageError, match="ByProperties takes a function of the properties, not 5"):
        ByProperties(5)  # type: ignore[arg-type]
