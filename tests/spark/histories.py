"""Random histories: a few hundred events with many ties in time, nulls, gaps, and keys of very unequal weight."""

from __future__ import annotations

import numpy as np
import pandas as pd

EVENTS = 400
SPAN = 60_000  # ms


def trades(seed: int, events: int = EVENTS) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    price = np.round(rng.normal(100, 20, events), 2)
    price[rng.random(events) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "ts": np.sort(rng.integers(0, SPAN // 100, events) * 100),
            "symbol": rng.choice(["A", "B", "C", "DDD", None], events, p=[0.5, 0.2, 0.15, 0.1, 0.05]),
            "venue": rng.integers(0, 3, events),
            "price": price,
            "size": rng.integers(1, 1000, events).astype("int32"),
        }
    )


def quotes(seed: int, events: int = EVENTS // 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed + 1000)
    return pd.DataFrame(
        {
            "ts": np.sort(rng.integers(0, SPAN // 100, events) * 100),
            "symbol": rng.choice(["A", "B", "E"], events),
            "bid": rng.normal(99, 20, events),
        }
    )
