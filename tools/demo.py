"""Run a notebook without a browser and print the outputs of its cells tagged `result`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode


def texts(cell: NotebookNode) -> list[str]:
    """What the outputs of *cell* say as plain text."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append(output.text)
        elif "data" in output and "text/plain" in output.data:
            found.append(output.data["text/plain"])
    return [text for text in found if text.strip()]  # progress that has ended is empty


def main(path: Path) -> int:
    if not path.is_file():
        print(f"cepbook: there is no notebook {path}", file=sys.stderr)
        return 1
    notebook = nbformat.read(path, as_version=4)
    results = [cell for cell in notebook.cells if "result" in cell.metadata.get("tags", [])]
    if not results:
        print(f"cepbook: no cell of {path} is tagged `result`", file=sys.stderr)
        return 1
    print(f"cepbook: running {path}", flush=True)
    start = time.monotonic()
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        store_widget_state=False,
        resources=where,
        extra_arguments=["--log-level=ERROR"],  # else the kernel warns about its loopback sockets
    )
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"cepbook: {path} ran in {time.monotonic() - start:.0f} s; its result:\n")
    print("\n\n".join(text.rstrip("\n") for cell in results for text in texts(cell)))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
