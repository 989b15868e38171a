"""The engine, scenario files and explanations are importable where pandas and numpy do not exist, as in a browser."""

from __future__ import annotations

import subprocess
import sys

IMPORTS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pandas", "numpy", "IPython", "ipywidgets", "anywidget", "pyarrow", "pyspark"}:
            raise ModuleNotFoundError(f"{name} is missing")

sys.meta_path.insert(0, Missing())
import cepbook.session.explain.marble
import cepbook.session.explain.why
import cepbook.session.explain.why_not
import cepbook.session.history.event_log
import cepbook.testing.cell_reader
import cepbook.testing.engines
"""


def test_explanations_import_no_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
