"""Copies the notebooks to `scratch/`, where JupyterLab may save what it likes; prints where that of the named one is.

A notebook that is there already stays as it is: it is the user's. The folder is not tracked; without it, all are new.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def copies(source: Path, target: Path) -> list[Path]:
    """Copy what `target` lacks, images too; the copies that differ from their original are returned."""
    differ = []
    for original in sorted(path for path in source.rglob("*") if path.is_file()):
        place = original.relative_to(source)
        if any(part.startswith(".") for part in place.parts):
            continue
        copy = target / place
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(original, copy)
        elif copy.read_bytes() != original.read_bytes():
            differ.append(copy)
    return differ


def main(first: str) -> int:
    target = ROOT / "scratch"
    yours = [copy.name for copy in copies(ROOT / "notebooks", target)]
    if yours:
        kept = ", ".join(yours)
        print(
            f"cepbook: kept as you left them in scratch/: {kept} (delete one there for a fresh copy)", file=sys.stderr
        )
    print(Path("scratch") / Path(first).name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
