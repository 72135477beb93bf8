"""Text of strangers that is made to exhaust a parser, and links that lead writers out of a run.

Each reader gets a file in a forked child: 5 s and 1 GB, one line of error or a result, no code.
"""

from __future__ import annotations

import contextlib
import gc
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from faults import Case, Suite, temporary_folder
from faults.forked import forked
from representer.errors import RepresenterError

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
SIZES = {"json": (40_000, 1_000_000), "yaml": (10_000, 65_000), "cell": (20_000, 130_000)}

_folder = Path()


def _setup() -> None:
    """Import what the readers need, once for all children."""
    global _folder
    import representer.cli.parser
    import representer.data.text
    import representer.storage.run  # noqa: F401

    _folder = temporary_folder()
    gc.freeze()  # else the collector of each child copies the memory of this process


def _keys(count: int) -> str:
    return json.dumps({str(k): 1 for k in range(count)})[:-1] + f', "{count - 1}": 2}}'


def _aliases(layer: str) -> str:
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{i}: &a{i} {layer.format(', '.join([f'*a{i - 1}'] * 10))}" for i in range(1, 9)]
    return "\n".join(lines)


def _run_with(name: str, text: str) -> Path:
    """Return a run folder with a file of this text, listed with the right digest."""
    from representer.storage.run import Entry, manifest_text

    run = _folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    (run / name).write_text(text, encoding="utf-8")
    entry = {name: Entry.of([text.encode()])}
    (run / "manifest.json").write_text(manifest_text(entry), encoding="utf-8")
    return run


def _manifest(text: str) -> None:
    from representer.storage.run import RunFiles

    run = _run_with("a", "")
    (run / "manifest.json").write_text(text, encoding="utf-8")
    RunFiles(run)


def _of_run(name: str, method: str, text: str) -> None:
    from representer.storage.run import RunFiles

    getattr(RunFiles(_run_with(name, text)), method)(name)


def _config(text: str) -> None:
    from representer.cli.parser import read_config_files

    path = _folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    read_config_files(["--config", str(path)], {"a"}, {"a"})


def _table(name: str, text: str) -> None:
    from representer.data.text import read_table, tokenize

    path = _folder / name
    path.write_text(text, encoding="utf-8")
    table = read_table(path)
    for one in table.texts:
        tokenize(one)


def _jsonl(text: str) -> None:
    _table("a.jsonl", f'{text}\n{{"text": "a", "label": "b"}}\n')


def _csv(text: str) -> None:
    cell = text.replace('"', '""')
    _table("a.csv", "text,label,c\n" + f'"{cell}",a,"{cell}"\n"{cell}",b,1\n' * 2)


def _wide(count: int, label: str | None) -> None:
    from representer.data.text import read_table

    path = _folder / "wide.csv"
    names = [f"c{k}" for k in range(count)]
    cells = ["a b", *["1"] * count]
    path.write_text("\n".join(map(",".join, (["text", *names], cells, cells))), encoding="utf-8")
    read_table(path, label=label)


def _tried(call: Callable[[], Any]) -> None:
    """Call a reader in a child; it must end in time, in memory, and with an error of its own."""

    def child() -> int:
        try:
            call()
        except RepresenterError as error:
            print(str(error)[:300])
        return 0

    done = forked(child, _folder, seconds=4 * SECONDS)
    assert done.code == 0, f"ended with {done.code}: {done.last}"
    assert done.cpu < SECONDS, f"took {done.cpu:.1f} s"
    assert not done.touched, f"touched {done.touched[0]}"
    assert len(done.out.strip().splitlines()) <= 1, "the error has several lines"


def _linked(kind: str, write: Callable[[Path], Any], name: str) -> None:
    """Write where a link leads out; nothing outside may change."""
    root = temporary_folder()
    outside, folder = root / "outside", root / "run"
    folder.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("precious", encoding="utf-8")
    target = {"folder": outside, "file": outside / "precious", "missing": outside / "new"}[kind]
    (folder / name).symlink_to(target)
    with contextlib.suppress(RepresenterError):
        write(folder)
    found = {path.name: path.read_text(encoding="utf-8") for path in outside.iterdir()}
    assert found == {"precious": "precious"}, f"outside is now {found!r:.200}"
    shutil.rmtree(root)


def _network() -> Any:
    from representer.nn import RKMLSTM

    return RKMLSTM(3, 4).eval()


@cache
def _estimator() -> Any:
    from representer.estimators import TextClassifier

    model = TextClassifier(epochs=1, hidden_size=4, embedding_size=4, min_count=1, verbose=0)
    return model.fit(["the sea", "a sky"] * 20, list("ab") * 20)


def _writers() -> dict[str, tuple[str, Callable[[Path], Any]]]:
    """Return the name of the link and the writer, by what is written."""
    from representer.data.signals import synthetic_recordings, write_npz
    from representer.export import to_onnx, to_torch
    from representer.export.programs import to_int8
    from representer.export.runs import export_run
    from representer.kernels import StringKernel, gram
    from representer.models import SequenceClassifierConfig, SequenceNetwork
    from representer.storage import atomic
    from representer.storage.run import RunFolder
    from representer.tasks.use import write_table
    from representer.tasks.worklist import WorkList

    model = SequenceNetwork(SequenceClassifierConfig(9, 2, embedding_size=3, hidden_size=4))

    def run(name: str, folder: Path) -> None:
        with RunFolder(folder) as held:
            held.write_text(name, "new")

    def compared(folder: Path) -> None:
        names = "comparison.json", "results.jsonl"
        WorkList(folder, names, {}, lambda unit, value: {unit: value}, dict.popitem).add("a", 1)

    def matrix(folder: Path) -> None:
        gram(StringKernel(), [np.ones((2, 2))] * 3, out=folder / "k.npy")

    def small(folder: Path) -> None:
        to_onnx(_network(), folder / "large.onnx")
        to_int8(folder / "large.onnx", folder / "small.onnx")

    return {
        "a file": ("a.txt", lambda folder: atomic.write_text(folder / "a.txt", "new")),
        "an appended file": ("a.txt", lambda folder: atomic.append(folder / "a.txt", b"new")),
        "a file of a run": ("metrics.json", partial(run, "metrics.json")),
        "checkpoints": ("checkpoints", lambda folder: RunFolder(folder).checkpoints),
        "results of compare": ("results.jsonl", compared),
        "a table": ("out.csv", lambda folder: write_table(folder / "out.csv", ["new"])),
        "a folder to share": ("hub", lambda folder: model.save_pretrained(folder / "hub")),
        **{
            f"an export to {to}": (to, lambda one, to=to: export_run(_estimator(), one / to, to))
            for to in ("onnx", "torch", "c", "html", "hub")
        },
        "settings of compare": ("comparison.json", compared),
        "a Gram matrix": ("k.npy", matrix),
        "the journal of a Gram matrix": ("k.npy.journal", matrix),
        "recordings": ("a.npz", lambda one: write_npz(one / "a.npz", synthetic_recordings())),
        "weights of 8 bits": ("small.onnx", small),
        "a program of ONNX": ("m.onnx", lambda one: to_onnx(_network(), one / "m.onnx")),
        "a program of torch": ("model.pt2", lambda one: to_torch(_network(), one / "model.pt2")),
    }


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield every text at every size to every reader that takes it, and every writer and link."""
    draw = random.Random(f"hostile text {seed}")
    readers: dict[str, tuple[str, Mapping[str, Text], Callable[[str], None]]] = {
        "manifest": ("json", JSON, _manifest),
        "model.json of a run": ("json", JSON, partial(_of_run, "model.json", "json")),
        "vocabulary of a run": ("json", JSON, partial(_of_run, "vocabulary.json", "text")),
        "JSON Lines": ("json", JSON, _jsonl),
        "configuration of a run": ("yaml", YAML, partial(_of_run, "config.yaml", "yaml")),
        "--config": ("yaml", YAML, _config),
        "CSV cells": ("cell", CELLS, _csv),
    }
    for reader, (kind, texts, read) in readers.items():
        for size in SIZES[kind]:
            for name, text in texts.items():
                if draw.random() < share:
                    call = partial(_text_to, read, text, size)
                    yield Case(reader, f"{reader}-{name}-{size}", call)
    for count in (2000, 32_000, 200_000):
        for label in (None, "lable"):
            call = partial(_tried, partial(_wide, count, label))
            yield Case("CSV headers", f"header-{count}-{label}", call)
    for what in (
        "a file", "an appended file", "a file of a run", "checkpoints", "results of compare",
        "a table", "a folder to share", "a program of torch", "an export to onnx",
        "an export to torch", "an export to c", "an export to html", "an export to hub",
        "settings of compare", "a Gram matrix",
        "the journal of a Gram matrix", "recordings", "weights of 8 bits", "a program of ONNX",
    ):  # fmt: skip
        for link in ("folder", "file", "missing"):
            yield Case("links", f"{what}-{link}", partial(_link_to, what, link))


def _text_to(read: Callable[[str], None], text: Text, size: int) -> None:
    content = text(size)
    _tried(lambda: read(content))


def _link_to(what: str, kind: str) -> None:
    name, write = _writers()[what]
    _linked(kind, write, name)


SUITE = Suite(
    "Text that is made to exhaust a parser, at several sizes, and links that lead out of a folder: "
    "a result or one line, 5 s, 1 GiB, no code, nothing outside changed",
    cases,
    _setup,
)
