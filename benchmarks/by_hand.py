"""The jobs of `workloads.py` written by hand: for each a function of one event, specialised for exactly that job.

They know neither null nor overflow, keep nothing for inspection, and deliver rows as the engine's statements do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
Out = Callable[[int, list[Event], None], None]
OnEvent = Callable[[Event], None]


def by_hand(name: str, out: Out) -> OnEvent:
    """Return the function for workload `name`; its rows go to `out`."""
    job: OnEvent = globals()[f"_{name}"](out)
    return job


def _a(out: Out) -> OnEvent:
    def on_event(e: Event) -> None:
        price = e["price"]
        if price > 50:
            out(e["ts"], [{"ts": e["ts"], "symbol": e["symbol"], "price": price}], None)

    return on_event


def _b(out: Out) -> OnEvent:
    window: deque[float] = deque()
    total = 0.0

    def on_event(e: Event) -> None:
        nonlocal total
        price = e["price"]
        window.append(price)
        total += price
        if len(window) > 1000:
            total -= window.popleft()
        out(e["ts"], [{"ts": e["ts"], "ap": total / len(window)}], None)

    return on_event


def _c(out: Out) -> OnEvent:
    window: deque[tuple[int, str, int]] = deque()
    sums: dict[str, int] = {}

    def on_event(e: Event) -> None:
        now, symbol, volume = e["ts"], e["symbol"], e["volume"]
        limit = now - 30_000
        while window and window[0][0] <= limit:
            _, left, amount = window.popleft()
            sums[left] -= amount
        window.append((now, symbol, volume))
        total = sums[symbol] = sums.get(symbol, 0) + volume
        out(now, [{"ts": now, "symbol": symbol, "total": total}], None)

    return on_event


def _cx(out: Out) -> OnEvent:
    window: deque[tuple[int, str, int]] = deque()
    sums: dict[str, int] = {}

    def on_event(e: Event) -> None:
        now, symbol, volume = e["ts"], e["symbol"], e["volume"]
        limit = now - 30_000
        if window and window[0][0] <= limit:
            touched = set()
            while window and window[0][0] <= limit:
                _, left, amount = window.popleft()
                sums[left] -= amount
                touched.add(left)
            out(now, [{"symbol": s, "total": sums[s]} for s in touched], None)
        window.append((now, symbol, volume))
        total = sums[symbol] = sums.get(symbol, 0) + volume
        out(now, [{"symbol": symbol, "total": total}], None)

    return on_event


def _d(out: Out) -> OnEvent:
    groups: dict[str, list[Any]] = {}

    def on_event(e: Event) -> None:
        symbol, price = e["symbol"], e["price"]
        group = groups.get(symbol)
        if group is None:
            group = groups[symbol] = [deque(), 0.0]
        window, total = group
        window.append(price)
        total += price
        if len(window) > 100:
            total -= window.popleft()
        group[1] = total
        out(e["ts"], [{"symbol": symbol, "n": len(window), "ap": total / len(window)}], None)

    return on_event


def _f(out: Out) -> OnEvent:
    sums: dict[str, int] = {}
    end: int | None = None

    def on_event(e: Event) -> None:
        nonlocal sums, end
        now = e["ts"]
        if end is None:
            end = now + 1000
        elif now >= end:
            out(now, [{"symbol": s, "total": v} for s, v in sums.items()], None)
            sums = {}
            end += 1000
        symbol = e["symbol"]
        sums[symbol] = sums.get(symbol, 0) + e["volume"]

    return on_event


def _e(out: Out) -> OnEvent:
    open_matches: dict[str, list[int]] = {}

    def on_event(e: Event) -> None:
        price = e["price"]
        if price > 95:
            open_matches.setdefault(e["symbol"], []).append(e["ts"])
        elif price < 5:
            now = e["ts"]
            rows = [{"a": ts, "b": now} for ts in open_matches.pop(e["symbol"], ()) if now - ts < 10_000]
            if rows:
                out(now, rows, None)

    return on_event


def _g(out: Out) -> OnEvent:
    waiting: deque[tuple[int, str]] = deque()
    last_low: dict[str, int] = {}

    def on_event(e: Event) -> None:
        now, price = e["ts"], e["price"]
        while waiting and waiting[0][0] <= now - 500:
            ts, symbol = waiting.popleft()
            if last_low.get(symbol, -1) <= ts:
                out(now, [{"a": ts}], None)
        if price > 95:
            waiting.append((now, e["symbol"]))
        elif price < 5:
            last_low[e["symbol"]] = now

    return on_event


def _h(out: Out) -> OnEvent:
    partitions: dict[str, list[Any]] = {}  # price before, its row is in a match, top, number of falls

    def on_event(e: Event) -> None:
        symbol, price = e["symbol"], e["price"]
        partition = partitions.get(symbol)
        if partition is None:
            partitions[symbol] = [price, False, 0.0, 0]
            return
        before, matched, top, falls = partition
        partition[0], partition[1] = price, False
        if price < before:
            if falls:
                partition[3] = falls + 1
            elif not matched:
                partition[2], partition[3] = before, 1
            return
        partition[3] = 0
        if price > before and falls > 1:
            partition[1] = True
            out(e["ts"], [{"top": top, "bottom": before, "now": price}], None)

    return on_event


def _i(out: Out) -> OnEvent:
    groups: dict[str, list[Any]] = {}

    def on_event(e: Event) -> None:
        symbol, price = e["symbol"], e["price"]
        group = groups.get(symbol)
        if group is None:
            group = groups[symbol] = [0, 0, price]
        n, total, high = group
        group[0], group[1] = n, total = n + 1, total + e["volume"]
        if price > high:
            group[2] = high = price
        out(e["ts"], [{"symbol": symbol, "n": n, "total": total, "high": high}], None)

    return on_event


def _j(out: Out) -> OnEvent:
    live: dict[str, list[list[int]]] = {}  # by symbol, the counts of its partitions
    ends: deque[tuple[int, str, list[int]]] = deque()

    def on_event(e: Event) -> None:
        now, symbol = e["ts"], e["symbol"]
        while ends and ends[0][0] <= now:
            _, ended, count = ends.popleft()
            live[ended].remove(count)
            out(now, [{"symbol": ended, "n": count[0]}], None)
        if e["price"] > 99.5:
            new = [0]
            live.setdefault(symbol, []).append(new)
            ends.append((now + 1000, symbol, new))
        for count in live.get(symbol, ()):
            count[0] += 1

    return on_event


def _k(out: Out) -> OnEvent:
    windows: list[deque[tuple[int, tuple[str, int]]]] = [deque(), deque()]
    tables: list[dict[tuple[str, int], deque[int]]] = [{}, {}]

    def on_event(e: Event) -> None:
        now, side, key = e["ts"], int(e["price"] <= 50), (e["symbol"], e["volume"])
        window, table = windows[side], tables[side]
        window.append((now, key))
        table.setdefault(key, deque()).append(now)
        if len(window) > 1000:
            _, left = window.popleft()
            same = table[left]
            same.popleft()
            if not same:
                del table[left]
        partners = tables[1 - side].get(key)
        if partners:
            pairs = [(ts, now) if side else (now, ts) for ts in partners]
            out(now, [{"a": a, "b": b} for a, b in pairs], None)

    return on_event


def _l(out: Out) -> OnEvent:
    latest: dict[str, list[Any]] = {}

    def on_event(e: Event) -> None:
        symbol, price = e["symbol"], e["price"]
        row = latest.get(symbol)
        if row is None:
            row = latest[symbol] = [price, 1]
        else:
            row[0] = price
            row[1] += 1
        if price > 90:
            out(e["ts"], [{"symbol": symbol, "n": row[1]}], None)

    return on_event


def _m(out: Out) -> OnEvent:
    window: deque[str] = deque()
    prices: dict[str, deque[float]] = {}

    def on_event(e: Event) -> None:
        symbol, price = e["symbol"], e["price"]
        if price > 50:
            window.append(symbol)
            prices.setdefault(symbol, deque()).append(price)
            if len(window) > 1000:
                prices[window.popleft()].popleft()
            return
        out(e["ts"], [{"ts": e["ts"], "high": max(prices.get(symbol, ()), default=None)}], None)

    return on_event


def _n(out: Out) -> OnEvent:
    window: deque[tuple[int, str, float]] = deque()
    groups: dict[str, list[Any]] = {}
    touched: dict[str, None] = {}
    due: int | None = None

    def expire(limit: int) -> None:
        while window and window[0][0] <= limit:
            _, symbol, price = window.popleft()
            group = groups[symbol]
            group[0] -= 1
            group[1] -= price
            touched[symbol] = None

    def on_event(e: Event) -> None:
        nonlocal due
        now, symbol, price = e["ts"], e["symbol"], e["price"]
        if due is None:
            due = now + 1000
        while due <= now:
            expire(due - 10_000)
            rows = ((changed, *groups[changed]) for changed in touched)
            out(now, [{"symbol": s, "n": n, "ap": total / n if n else None} for s, n, total in rows], None)
            touched.clear()
            due += 1000
        window.append((now, symbol, price))
        group = groups.get(symbol)
        if group is None:
            group = groups[symbol] = [0, 0.0]
        group[0] += 1
        group[1] += price
        touched[symbol] = None

    return on_event


def _o(out: Out) -> OnEvent:
    prices: dict[str, float] = {}

    def on_event(e: Event) -> None:
        symbol, price = e["symbol"], e["price"]
        before, prices[symbol] = prices.get(symbol), price
        out(e["ts"], [{"ts": e["ts"], "before": before, "price": price}], None)

    return on_event


def _p(out: Out) -> OnEvent:
    counts: dict[str, int] | None = None
    end = 0

    def on_event(e: Event) -> None:
        nonlocal counts, end
        now = e["ts"]
        if counts is not None and end <= now:
            out(now, [{"symbol": symbol, "n": n} for symbol, n in counts.items()], None)
            counts = None
        if counts is None:
            if e["price"] <= 99:
                return
            counts, end = {}, now + 2000
        symbol = e["symbol"]
        counts[symbol] = counts.get(symbol, 0) + 1

    return on_event
