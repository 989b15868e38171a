"""What Spark's workers load, and what they are given: plans, no text."""

from __future__ import annotations

import pickle
import subprocess
import sys

from cepbook.engine.runtime import Config, Runtime
from cepbook.lang.plan.catalog import FunctionType
from cepbook.lang.types import INT
from cepbook.spark.task.program import DeploymentStep, TaskProgram

HEAVY = ("pandas", "lark", "pyspark", "IPython", "cepbook.session", "cepbook.dialects.registry")


def test_a_worker_loads_neither_pandas_nor_a_grammar() -> None:
    code = f"import cepbook.spark.task.task_runner, sys; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_worker_starts_statements_without_a_grammar() -> None:
    runtime = Runtime()
    runtime.register_function("twice", len, returns=INT)
    runtime.deploy("create schema A(ts long, s string)")
    module = runtime.deploy("@name('q') select twice(s) as n from A").plan
    kinds = runtime.catalog.event_types
    program = TaskProgram(
        (DeploymentStep("q", module, True),), (kinds["A"],), ((0, "A", ("s",), ("e0_0",)),),
        (("q", module.statements[0].output_type),), kinds, Config(), 0, {"twice": (len, FunctionType(INT))},
    )  # fmt: skip
    code = (
        "import pickle, sys; from cepbook.spark.task.task_runner import load_runtime; "
        f"load_runtime(pickle.load(sys.stdin.buffer)); print([m for m in {HEAVY} if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(program), capture_output=True, check=True)
    assert found.stdout.decode().strip() == "[]"
