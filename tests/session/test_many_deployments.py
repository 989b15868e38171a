"""The cost of a deployment does not depend on the number of deployments, counted in executed opcodes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from cepbook import Workbench

FEW, MANY = 20, 420
KINDS: Mapping[str, Callable[[Workbench, int], object]] = {
    "select": lambda cep, n: cep.run(f"@name('s{n}') select x from E(x > {n})"),
    "cell": lambda cep, n: cep.run(f"@name('c{n}') select x from E(x > {n})", cell=f"cell-{n}"),
    "insert into": lambda cep, n: cep.run(f"@name('i{n}') insert into D{n} select x from E(x > {n})"),
    "schema": lambda cep, n: cep.run(f"create schema T{n}(x int)"),
    "variable": lambda cep, n: cep.run(f"create variable int v{n} = {n}"),
    "named window": lambda cep, n: cep.run(f"create window W{n}#keepall as E"),
    "apama": lambda cep, n: cep.run(f"from e in all E() where e.x > {n} select e.x", dialect="apama", name=f"a{n}"),
}


def opcodes(work: Callable[[], object]) -> int:
    """The number of opcodes that Python executes in `work`."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    gc.collect()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.histories
@pytest.mark.parametrize("kind", KINDS)
def test_one_more_deployment_costs_the_same(kind: str) -> None:
    cep, deploy, counts = Workbench(), KINDS[kind], []
    cep.run("create schema E(x int)")
    for number in range(1000, 1000 + MANY + 1):  # numbers of equal length
        if number - 1000 in (FEW, MANY):
            counts.append(opcodes(lambda: deploy(cep, number)))  # noqa: B023 - called at once
        else:
            deploy(cep, number)
    few, many = counts
    assert many < few * 1.05, f"{few:,} opcodes after {FEW} deployments, {many:,} after {MANY:,}"
