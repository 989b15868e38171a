"""Reduction to pixels: for random series the extremes are those of the rows, and a line covers the same pixels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cepbook.charts.reduction import ALL_ROWS, Grid, envelopes, extremes, intervals


def random_series(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    size = int(rng.choice([0, 1, 2, 5, 50, 500, 5_000]))
    times = np.sort(rng.integers(0, int(rng.choice([1, 10, 10_000])), size))
    values = rng.normal(size=size).round(int(rng.integers(0, 3)))
    values[rng.random(size) < rng.choice([0, 0.1, 0.9, 1])] = np.nan
    return times, values


@pytest.mark.parametrize("seed", range(200))
def test_the_extremes_of_each_interval_are_those_of_all_its_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times, values = random_series(rng)
    start, end = sorted(rng.integers(-5, 11_000, 2))
    count = int(rng.choice([1, 3, 40, 700]))
    bounds = intervals(times, start, max(end, start + 1), count)
    inside = (times >= start) & (times <= max(end, start + 1))
    assert bounds[-1] - bounds[0] == inside.sum() and len(bounds) == count + 1
    places = extremes(values, bounds)
    assert (np.diff(places) > 0).all() and len(places) <= max(ALL_ROWS * count, 1)
    for first, last in itertools.pairwise(bounds):
        chosen = places[(places >= first) & (places < last)]
        if first == last:
            assert not len(chosen)
            continue
        assert chosen[0] == first and chosen[-1] == last - 1, "a gap at the edge of an interval stays one"
        known = values[first:last][~np.isnan(values[first:last])]
        kept = values[chosen][~np.isnan(values[chosen])]
        assert len(known) == 0 or (kept.min(), kept.max()) == (known.min(), known.max())


@pytest.mark.parametrize("seed", range(50))
def test_envelopes_are_least_mean_and_greatest(seed: int) -> None:
    times, values = random_series(np.random.default_rng(seed))
    bounds = intervals(times, 0, 10_000, 37)
    starts, lows, means, highs = envelopes(values, bounds)
    filled = [(a, b) for a, b in itertools.pairwise(bounds) if a < b]
    assert starts.tolist() == [a for a, _ in filled]
    for (a, b), low, mean, high in zip(filled, lows, means, highs, strict=True):
        known = values[a:b][~np.isnan(values[a:b])]
        if not len(known):
            assert np.isnan([low, mean, high]).all()
        else:
            assert (low, high) == (known.min(), known.max()) and mean == pytest.approx(known.mean())


@pytest.mark.parametrize("seed", range(50))
def test_grids_count_every_value_once(seed: int) -> None:
    times, values = random_series(np.random.default_rng(seed))
    grid = Grid(0, 9_000, -1.0, 1.0, 13, 7)
    inside = (times <= 9_000) & (np.abs(values) <= 1)
    assert grid.counts(times, values).sum() == inside.sum()
    places = grid.occupied(times, values)
    assert len(places) == (grid.counts(times, values) > 0).sum() and inside[places].all()
