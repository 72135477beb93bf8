"""Tutorials are notebooks in Markdown: the build runs them and shows what their cells return.

A finished run stays in build/tutorials until the page, the library or the style of the pictures
changes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "tutorials"
STYLE = ROOT / "docs" / "assets" / "docs.mplstyle"
FOLDER = "tutorials/"
SECONDS = 600  # a cell that takes longer is stopped
BEFORE = f"""\
import matplotlib
%config InlineBackend.figure_formats = ["svg"]
%config InlineBackend.print_figure_kwargs = {{"bbox_inches": None}}
%matplotlib inline
matplotlib.style.use({str(STYLE)!r})"""
PICTURES = {"image/svg+xml": "svg", "image/png": "png"}

_notebooks: dict[str, Any] = {}


def on_files(files: Files, config: Any) -> Files:
    """Run the tutorials, and add them as notebooks, with their pictures."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two notebooks run at once
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    pages = [file for file in files.documentation_pages() if file.src_uri.startswith(FOLDER)]
    pages = [page for page in pages if "```python" in page.content_string]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(executed, [page.content_string for page in pages]))
    for page, notebook in zip(pages, runs, strict=True):
        name = page.src_uri.removesuffix(".md")
        _notebooks[page.src_uri] = notebook
        text = nbformat.writes(notebook)
        files.append(File.generated(config, f"{name}.ipynb", content=text))
        for picture, content in pictures(notebook):
            files.append(File.generated(config, f"{name}/{picture}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace a tutorial by its cells and what they returned."""
    notebook = _notebooks.get(page.file.src_uri)
    return shown(notebook, Path(page.file.src_uri).stem) if notebook else markdown


def executed(text: str) -> Any:
    """Return a tutorial as a notebook that was run in an empty folder."""
    kept = KEPT / f"{_fingerprint(text)}.ipynb"
    if kept.is_file():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.reads(text, fmt="md")
    notebook.metadata["kernelspec"] = {
        "name": "python3", "display_name": "Python 3", "language": "python",
    }  # fmt: skip
    notebook.cells.insert(0, nbformat.v4.new_code_cell(BEFORE))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sockets:
        kernel = Config({"ConnectionFileMixin": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, resources=resources, config=kernel).execute()
    del notebook.cells[0]
    kept.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, kept)
    return notebook


def shown(notebook: Any, name: str) -> str:
    """Return a notebook as Markdown."""
    parts, heading, seconds = [], name, 0.0
    for k, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            heading = ([heading, *re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)])[-1]
            continue
        parts.append(f"```python\n{cell.source}\n```")
        drawn = [file for file, _ in pictures_of(cell, k)]
        printed = "".join(
            _text(output) for output in cell.outputs
            if not (drawn and output.output_type == "execute_result")  # a legend, an axis
        )  # fmt: skip
        parts += [f"```{{.text .output}}\n{printed.rstrip()}\n```"] if printed.strip() else []
        parts += [f"![{heading}]({name}/{file})" for file in drawn]
        seconds += _seconds(cell)
    parts.append(
        f"This page is a notebook ([download]({name}.ipynb)). It ran in {seconds:.0f} seconds when "
        "the site was built."
    )
    return "\n\n".join(parts) + "\n"


def pictures(notebook: Any) -> Iterator[tuple[str, str | bytes]]:
    """Yield names and contents of the pictures of a notebook."""
    for k, cell in enumerate(notebook.cells):
        yield from pictures_of(cell, k)


def pictures_of(cell: Any, k: int) -> Iterator[tuple[str, str | bytes]]:
    """Yield names and contents of the pictures of cell k."""
    for j, output in enumerate(cell.get("outputs", ())):
        data = output.get("data", {})
        kind = next((kind for kind in PICTURES if kind in data), None)
        if kind is not None:
            content = data[kind] if kind.endswith("xml") else base64.b64decode(data[kind])
            yield f"{k}_{j}.{PICTURES[kind]}", content


def _text(output: Any) -> str:
    """Return what an output says, if it is text and not the name of a picture."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    data = output.get("data", {})
    return "" if set(data) & set(PICTURES) else data.get("text/plain", "")


def _seconds(cell: Any) -> float:
    times = cell.metadata.get("execution", {})
    ends = [times.get("iopub.execute_input"), times.get("shell.execute_reply")]
    if None in ends:
        return 0.0
    start, end = (datetime.fromisoformat(one) for one in ends)
    return (end - start).total_seconds()


def _fingerprint(text: str) -> str:
    """Return a hash of the page and of all that its outputs depend on."""
    found = hashlib.sha256(text.encode() + BEFORE.encode() + STYLE.read_bytes())
    for path in sorted((ROOT / "src").rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
