"""Text of strangers that is made to exhaust a parser, and links that lead writers out of a run.

Each reader gets a file in a forked child: 5 s and 1 GB, one line of error or a result, no code.
"""

from __future__ import annotations

import contextlib
import gc
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from faults import Case, Suite, emptied, temporary_folder
from faults.processes import REFUSED, forked
from representer.cli.parser import read_config_files
from representer.data.signals import synthetic_recordings, write_npz
from representer.data.text import read_table, tokenize
from representer.errors import RepresenterError
from representer.estimators import TextClassifier
from representer.export import to_onnx, to_torch
from representer.export.programs import to_int8
from representer.export.runs import export_run
from representer.kernels import StringKernel, gram
from representer.models import SequenceClassifierConfig, SequenceNetwork
from representer.nn import RKMLSTM
from representer.storage import atomic
from representer.storage.run import Entry, RunFiles, RunFolder, manifest_text
from representer.tasks.use import write_table
from representer.tasks.worklist import WorkList

SECONDS = 5.0
LEVELS = (63, 65, 1000, 3000, 200_000)
Text = Callable[[int], str]  # of a size in characters

# what a JSON file holds, in place of a description
JSON: Mapping[str, Text] = {
    "an unfinished string of escaped quotes": lambda n: "[" * 65 + '"' + '\\"' * (n // 2),
    "an unfinished string of backslashes": lambda n: "[" * 65 + '"' + "\\" * n,
    "a long string": lambda n: "[" * 65 + '"' + "a" * n + '"' + "]" * 65,
    "quotes": lambda n: "[" * 65 + '"' * n,
    "empty strings": lambda n: "[" + '"",' * (n // 3) + "[]]",
    "brackets in strings": lambda n: '{"a": ["' + "[" * n + '"]}',
    "lists beside each other": lambda n: "[" + "[]," * (n // 3) + "[]]",
    "equal keys": lambda n: "{" + '"a": 1,' * (n // 7) + '"a": 2}',
    "other keys and an equal one": lambda n: _keys(n // 12),
    "digits": lambda n: '{"a": ' + "9" * n + "}",
    "a number beyond all limits": lambda n: '{"a": 1e' + "9" * min(n, 4000) + "}",
    "blanks": lambda n: " " * n + "x",
    **{f"{k:,} lists": partial(lambda n, k: "[" * k + "]" * k, k=k) for k in LEVELS},
    **{f"{k:,} objects": partial(lambda n, k: '{"a":' * k + "1" + "}" * k, k=k) for k in LEVELS},
}
# what a configuration holds, of a run or of --config
YAML: Mapping[str, Text] = {
    "an open list": lambda n: "a: [",
    "aliases of aliases": lambda n: _aliases("[{}]"),
    "merge keys of aliases": lambda n: _aliases("{{<<: [{}]}}"),
    "many merge keys": lambda n: "a: {" + "<<: {b: 1}, " * (n // 12) + "}",
    "a tag of a merge": lambda n: "a: {!!merge b: {c: 1}}",
    "code": lambda n: "a: !!python/object/apply:os.system ['touch executed']",
    "equal keys": lambda n: "a: 1\n" * (n // 5),
    "lists beside each other": lambda n: "a: " + "[" * 60 + "[]," * (n // 3) + "]" * 60,
    "a time as a number": lambda n: "a: 1" + ":30" * (n // 3),
    "a time as a fraction": lambda n: "a: 1" + ":30" * (n // 3) + ".5",
    "no truth value": lambda n: "a: !!bool maybe",
    "no date": lambda n: "a: 2001-13-45",
    "documents": lambda n: "---\n" * (n // 4),
    "a control character": lambda n: "a: \x80",
    "comments": lambda n: "#\n" * (n // 2),
    **{f"{k:,} lists": partial(lambda n, k: "a: " + "[" * k + "]" * k, k=k) for k in LEVELS},
}
CELLS: Mapping[str, Text] = {
    "nearly a number": lambda n: "9" * n + "x", "digits and a point": lambda n: "9" * n + ".5e",
    "blanks and a line end": lambda n: " " * n + "\n" + " " * n + "x", "quotes": lambda n: "'" * n,
    "a word": lambda n: "a" * n, "marks": lambda n: "e" + "\u0301" * n,
    "contractions": lambda n: "n't" * (n // 3),
}  # fmt: skip
OF_JSON, OF_YAML, OF_CELLS = (40_000, 1_000_000), (10_000, 65_000), (20_000, 130_000)  # sizes

_folder = Path()


def setup() -> None:
    global _folder
    _folder = temporary_folder()
    gc.freeze()  # else the collector of each child copies the memory of this process


def _keys(count: int) -> str:
    return json.dumps({str(k): 1 for k in range(count)})[:-1] + f', "{count - 1}": 2}}'


def _aliases(layer: str) -> str:
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{i}: &a{i} {layer.format(', '.join([f'*a{i - 1}'] * 10))}" for i in range(1, 9)]
    return "\n".join(lines)


def written(name: str, text: str) -> Path:
    path = _folder / name
    path.write_text(text, encoding="utf-8")
    return path


def run_with(name: str, text: str) -> Path:
    """Return a run folder with a file of this text, listed with the right digest."""
    emptied(_folder / "run")
    written("run/manifest.json", manifest_text({name: Entry.of([text.encode()])}))
    return written(f"run/{name}", text).parent


def read_manifest(text: str) -> None:
    run_with("a", "")
    RunFiles(written("run/manifest.json", text).parent)


def read_of_run(name: str, method: str, text: str) -> None:
    getattr(RunFiles(run_with(name, text)), method)(name)


def read_config(text: str) -> None:
    read_config_files(["--config", str(written("config.yaml", text))], {"a"}, {"a"})


def read_lines(text: str) -> None:
    path = written("a.jsonl", f'{text}\n{{"text": "a", "label": "b"}}\n')
    list(map(tokenize, read_table(path).texts))


def read_cells(text: str) -> None:
    cell = text.replace('"', '""')
    path = written("a.csv", "text,label,c\n" + f'"{cell}",a,"{cell}"\n"{cell}",b,1\n' * 2)
    list(map(tokenize, read_table(path).texts))


def read_wide(count: int, label: str | None) -> None:
    rows = ["text", *(f"c{k}" for k in range(count))], *[["a b", *["1"] * count]] * 2
    read_table(written("wide.csv", "\n".join(map(",".join, rows))), label=label)


def tried(read: Callable[..., Any], *arguments: Any) -> None:
    """Call a reader in a child; it must end in time, in memory, and with an error of its own."""
    ended = forked(
        lambda: (read(*arguments), 0)[1], _folder, seconds=4 * SECONDS, refuses=RepresenterError
    )
    ended.require(0, REFUSED, cpu=SECONDS)


def read_text(read: Callable[[str], None], text: Text, size: int) -> None:
    tried(read, text(size))


# Links: where a name leads out of a folder, and what writes there.


def network() -> Any:
    return RKMLSTM(3, 4).eval()


@cache
def estimator() -> Any:
    model = TextClassifier(epochs=1, hidden_size=4, embedding_size=4, min_count=1, verbose=0)
    return model.fit(["the sea", "a sky"] * 20, list("ab") * 20)


def write_run(folder: Path) -> None:
    with RunFolder(folder) as held:
        held.write_text("metrics.json", "new")


def write_results(folder: Path) -> None:
    names = "comparison.json", "results.jsonl"
    WorkList(folder, names, {}, lambda unit, value: {unit: value}, dict.popitem).add("a", 1)


def write_matrix(folder: Path) -> None:
    gram(StringKernel(), [np.ones((2, 2))] * 3, out=folder / "k.npy")


def write_small(folder: Path) -> None:
    to_onnx(network(), folder / "large.onnx")
    to_int8(folder / "large.onnx", folder / "small.onnx")


def share(folder: Path) -> None:
    config = SequenceClassifierConfig(9, 2, embedding_size=3, hidden_size=4)
    SequenceNetwork(config).save_pretrained(folder / "hub")


# by what is written: the name of the link, and the writer
WRITERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a file": ("a.txt", lambda folder: atomic.write_text(folder / "a.txt", "new")),
    "an appended file": ("a.txt", lambda folder: atomic.append(folder / "a.txt", b"new")),
    "a file of a run": ("metrics.json", write_run),
    "checkpoints": ("checkpoints", lambda folder: RunFolder(folder).checkpoints),
    "results of compare": ("results.jsonl", write_results),
    "a table": ("out.csv", lambda folder: write_table(folder / "out.csv", ["new"])),
    "a folder to share": ("hub", share),
    "a program of torch": ("model.pt2", lambda folder: to_torch(network(), folder / "model.pt2")),
    **{
        f"an export to {to}": (to, lambda one, to=to: export_run(estimator(), one / to, to))
        for to in ("onnx", "torch", "c", "html", "hub")
    },
    "settings of compare": ("comparison.json", write_results),
    "a Gram matrix": ("k.npy", write_matrix),
    "the journal of a Gram matrix": ("k.npy.journal", write_matrix),
    "recordings": ("a.npz", lambda one: write_npz(one / "a.npz", synthetic_recordings())),
    "weights of 8 bits": ("small.onnx", write_small),
    "a program of ONNX": ("m.onnx", lambda one: to_onnx(network(), one / "m.onnx")),
}


def write_at_link(what: str, link: str) -> None:
    """Write where a link leads out; nothing outside may change."""
    root, (name, write) = temporary_folder(), WRITERS[what]
    outside, folder = root / "outside", root / "run"
    folder.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("precious", encoding="utf-8")
    target = {"folder": outside, "file": outside / "precious", "missing": outside / "new"}[link]
    (folder / name).symlink_to(target)
    with contextlib.suppress(RepresenterError):
        write(folder)
    found = {path.name: path.read_text(encoding="utf-8") for path in outside.iterdir()}
    assert found == {"precious": "precious"}, f"outside is now {found!r:.200}"
    shutil.rmtree(root)


READERS: dict[str, tuple[Sequence[int], Mapping[str, Text], Callable[[str], None]]] = {
    "manifest": (OF_JSON, JSON, read_manifest),
    "model.json of a run": (OF_JSON, JSON, partial(read_of_run, "model.json", "json")),
    "vocabulary of a run": (OF_JSON, JSON, partial(read_of_run, "vocabulary.json", "text")),
    "JSON Lines": (OF_JSON, JSON, read_lines),
    "configuration of a run": (OF_YAML, YAML, partial(read_of_run, "config.yaml", "yaml")),
    "--config": (OF_YAML, YAML, read_config),
    "CSV cells": (OF_CELLS, CELLS, read_cells),
}


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield every text at every size to every reader that takes it, and every writer and link."""
    draw = random.Random(f"hostile text {seed}")
    for reader, (sizes, texts, read) in READERS.items():
        for size, (name, text) in product(sizes, texts.items()):
            if draw.random() < share:
                call = partial(read_text, read, text, size)
                yield Case(reader, f"{reader}-{name}-{size}", call)
    for count, label in product((2000, 32_000, 200_000), (None, "lable")):
        yield Case(
            "CSV headers", f"header-{count}-{label}", partial(tried, read_wide, count, label)
        )
    for what, link in product(WRITERS, ("folder", "file", "missing")):
        yield Case("links", f"{what}-{link}", partial(write_at_link, what, link))


SUITES = {
    "hostile_text": Suite(
        "Text that is made to exhaust a parser, at several sizes, and links that lead out of a "
        "folder: a result or one line, 5 s, 1 GiB, no code, nothing outside changed",
        cases,
        setup,
    )
}
