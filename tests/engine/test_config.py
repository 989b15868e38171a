"""Settings: what is no value of one is told when it is chosen, not by what statements do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cepbook import Config, Workbench
from cepbook.errors import UsageError

WRONG = [
    ({"time_zone": "Mars/Base"}, "Config: there is no time zone 'Mars/Base' (str)"),
    (
        {"time_zone": "Europe/Berln"},
        "Config: there is no time zone 'Europe/Berln' (str)\n  hint: did you mean `Europe/Berlin`?",
    ),
    (
        {"default_stream_selector": "both"},
        "Config: `default_stream_selector` must be one of istream, rstream, irstream, not 'both' (str)",
    ),
    ({"microseconds": "no"}, "Config: `microseconds` is True or False, not 'no' (str)"),
    ({"pattern_limit": 0}, "Config: `pattern_limit` is at least 1, not 0"),
    ({"pattern_limit": np.int64(0)}, "Config: `pattern_limit` is at least 1, not 0"),
    ({"state_limit": "0.0001 kB"}, "Config: `state_limit` is at least 1 byte, not '0.0001 kB' (str)"),
    ({"recognize_limit": 1.5}, "Config: `recognize_limit` is a whole number, not 1.5 (float)"),
]


@pytest.mark.parametrize(("settings", "told"), WRONG, ids=[" ".join(settings) for settings, _ in WRONG])
def test_wrong_values_are_told(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Config(**settings)
    assert str(caught.value) == told


def test_a_workbench_takes_a_config() -> None:
    cep = Workbench(config=Config(integer_division=True, default_stream_selector="irstream"))
    cep.run("create schema A(n int); @name('halves') select n / 2 as half from A#length(1)")
    for n in (5, 7):
        cep.send("A", n=n)
    assert cep.changes("halves")[["kind", "half"]].values.tolist() == [["insert", 2], ["insert", 3], ["remove", 2]]


def test_what_is_no_config_is_told_with_where_it_comes_from() -> None:
    with pytest.raises(UsageError, match=r"not {} \(dict\)\n  hint: from cepbook import Config"):
        Workbench(config={})  # type: ignore[arg-type]
