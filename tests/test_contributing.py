"""The first contribution of CONTRIBUTING.md works as printed: it fails without the row and passes with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_first_contribution_fails_and_then_passes(tmp_path: Path) -> None:
    package = tmp_path / "cepbook"
    shutil.copytree(ROOT / "cepbook", package, ignore=shutil.ignore_patterns("__pycache__", "labextension"))
    scenario = re.search(r"````markdown\n(.*?)````", TEXT, flags=re.DOTALL)
    function, row = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    diagnostic = re.search(r"^  unknown-function: .*?(?=^\d+ failed)", TEXT, flags=re.DOTALL | re.MULTILINE)
    assert scenario is not None
    assert diagnostic is not None
    file = tmp_path / "numbers.md"
    file.write_text(scenario[1], encoding="utf-8")

    before = run_scenario(file, tmp_path)
    assert before.returncode == 1
    without_line = re.compile(r"epl:\d+:\d+")
    assert [without_line.sub("", line).strip() for line in diagnostic[0].splitlines()] == [
        without_line.sub("", line).strip() for line in before.stdout.splitlines() if line.startswith("  ")
    ]

    table = package / "lang" / "registry" / "functions" / "math.py"
    source = table.read_text(encoding="utf-8")
    source = source.replace("\nMATH = (", f"\n{function}\n\nMATH = (").replace(
        '    _double("log10"', f'{row}    _double("log10"'
    )
    table.write_text(source, encoding="utf-8")
    after = run_scenario(file, tmp_path)
    assert after.returncode == 0, after.stdout + after.stderr


def run_scenario(file: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cepbook", "test", str(file)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
