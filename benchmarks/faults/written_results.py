"""Results as they are written: kept through a kill, small with many classes, free of markup."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from faults import Case, Suite, temporary_folder
from faults.processes import forked
from representer import nn
from representer.errors import ShapeError, StorageError
from representer.hub import model_card
from representer.models import SequenceClassifierConfig, SequenceNetwork
from representer.report.metrics import classification_metrics
from representer.storage.atomic import as_json
from representer.storage.run import RunFiles, RunFolder
from representer.tasks.comparison import Comparison, ComparisonTable, Result, as_markdown
from representer.tasks.worklist import WorkList

SECONDS = 5.0


def setup() -> None:
    """Import what is imported when it is used, once for all children."""
    torch.set_num_threads(1)
    card_of("plain")


# Results of a comparison, one unit a line.

UNITS = 80
NAMES = "comparison.json", "results.jsonl"
SHARES = (0.0, 0.001, 0.25, 0.5, 0.75, 0.999, 1.0)  # of a line that reach the file


def work_list(folder: Path) -> WorkList[int, float]:
    return WorkList(
        folder, NAMES, {"data": "made up"},
        lambda unit, value: {"unit": unit, "losses": [value] * 200},
        lambda line: (line["unit"], line["losses"][0]),
    )  # fmt: skip


def finished(folder: Path) -> bytes:
    folder.mkdir()
    work = work_list(folder)
    for unit in range(UNITS):
        work.add(unit, unit / 7)
    return (folder / NAMES[1]).read_bytes()


def interrupt(share: float, end: str) -> None:
    """Add a unit, which ends within its line or, at 1, before it is synced; all others are kept."""
    logs = temporary_folder()
    folder = logs / "out"
    before = finished(folder)
    line = len(before.splitlines()[-1]) + 1
    is_killed = end == "killed"

    def unsynced(_: int) -> None:
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.EIO, "a faulty disk")

    def child() -> int:
        work = work_list(folder)
        if share == 1:
            os.fsync = unsynced  # type: ignore[assignment]
        else:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL if is_killed else signal.SIG_IGN)
            most = len(before) + int(share * line)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        try:
            work.add(UNITS, (UNITS - 1) / 7)  # as long as the line before
        except StorageError:
            return 3
        return 0

    ended = forked(child, logs, seconds=4 * SECONDS)
    by = -signal.SIGKILL if share == 1 else -signal.SIGXFSZ
    assert ended.code == (by if is_killed else 3), f"ended with {ended.code}: {ended.last}"
    after = (folder / NAMES[1]).read_bytes()
    assert after.startswith(before), f"{len(after.splitlines())} of {UNITS} units are left"
    assert is_killed or after == before, f"{len(after) - len(before)} bytes of a line are left"
    assert set(work_list(folder).finished) - {UNITS} == set(range(UNITS))
    assert {path.name for path in folder.iterdir()} == set(NAMES)


def damage(position: float) -> None:
    """Cut a line of the results; the other units must be there."""
    folder = temporary_folder() / "out"
    lines = finished(folder).splitlines(keepends=True)
    row = int(position * UNITS)
    lines[row] = lines[row][: len(lines[row]) // 2] + b"\n"
    (folder / NAMES[1]).write_bytes(b"".join(lines))
    assert set(work_list(folder).finished) == set(range(UNITS)) - {row}


# Metrics of many classes, and states of a batch.

LAYERS: dict[str, Callable[..., Any]] = {
    "RKM-LSTM": nn.RKMLSTM, "RKM-CIFG": nn.RKMCIFG, "CNN": nn.CNN, "Gated CNN": nn.GatedCNN,
    "CNN of 3 steps": partial(nn.CNN, filter_length=3, bidirectional=True), "KBRN": nn.KBRN,
    "string kernel": nn.StringKernelRNN,
}  # fmt: skip


def write_classes(count: int) -> None:
    """Write the metrics of many classes, read them again and make a card of them."""
    folder = temporary_folder()

    def written() -> None:
        truth = np.repeat(np.arange(count), 2)
        scores = np.zeros((2 * count, count), np.float32)
        scores[np.arange(2 * count), (truth + np.arange(2 * count) % 2) % count] = 1
        test = classification_metrics(truth, scores, [f"c{k}" for k in range(count)])
        with RunFolder(folder / "run") as run:
            run.write_text("metrics.json", as_json({"model": "a", "test": test}))
            run.write_text("model.json", "{}")
        read: Any = RunFiles(folder / "run").json("metrics.json")
        assert read["test"]["accuracy"] == 0.5
        assert (folder / "run/metrics.json").stat().st_size < 1000 * count + 2**20

    forked(written, folder, seconds=4 * SECONDS).require(0, cpu=SECONDS)


def other_batch(name: str, size: int, other: int) -> None:
    """Continue with a batch of another size, which must be refused, and with one of the same."""
    layer = LAYERS[name](3, 4).eval()
    state = layer(torch.randn(6, size, 3))[1]
    layer(torch.randn(6, size, 3), state)
    try:
        layer(torch.randn(6, other, 3), state)
    except ShapeError as error:
        reason = str(error)
    else:
        reason = "accepted"
    assert reason.startswith("state"), f"the state of {size} sequences for {other}: {reason}"


# Names with markup, on pages of Markdown.

MARKUP = {
    "a link": "[a](http://x.org)", "an image": "![a](http://x.org/a.png)", "HTML": "<img src=x>",
    "a script": "<script>alert(1)</script>", "bold text": "**a** __b__", "code": "`a`",
    "two code marks": "``a` b``", "a heading": "a\n# b", "a list": "a\n\n- b", "bars": "a | b | c",
    "a bare address": "http://x.org www.x.org", "an automatic link": "<http://x.org>",
    "a reference": "[a][b]\n\n[b]: http://x.org", "a link of blanks": "[a]( http://x.org )",
    "an entity": "&lt;img src=x&gt; &#60;b&#62;", "a fence": "```\na\n```", "a quote": "\n> a",
    "a rule": "a\n\n---\n\nb", "a backslash": "\\[a](b)",
    "a script link": "[a](javascript:alert(1))",
}  # fmt: skip
TAGS = re.compile(r"<(?:a|img|script|strong|em|h[2-6]|li|hr|blockquote|b|code|pre)\b[^>]*>")


def card_of(text: str) -> str:
    described = {
        "estimator": "TextClassifier", "task": "text", "version": "1", "examples": {"train": 9},
        "target": {"names": [text, "b"]},
    }  # fmt: skip
    truth = np.array([0, 1] * 4)
    test = classification_metrics(truth, np.eye(2)[truth], [text, "b"])
    source = {"file": f"/x/{text}", "role": text, "rows": 1, "kept": 1, "sha256": "0" * 64}
    details = {"title": text, "data": {"sources": [source]}}
    metrics = {"model": text, "kind": "classes", "test": test, "baselines": [], "comparisons": []}
    return model_card(text, described, metrics, details)


def readme_of(text: str) -> str:
    folder = temporary_folder()
    model = SequenceNetwork(SequenceClassifierConfig(9, 2, embedding_size=3, hidden_size=4))
    model.save_pretrained(folder / "hub", name=text)
    return (folder / "hub/README.md").read_text("utf-8")


class MadeUp(Comparison):
    """A comparison that has run."""

    title: Any = "a"
    metric: Any = "accuracy"
    has_fixed_test: Any = False
    settings: Any = None

    def run(self, split: int, unit: str) -> list[Result]:
        raise NotImplementedError


def comparison_of(text: str) -> str:
    rows = {
        name: {k: Result(name, [float(k)] * 8, 1.0, 16) for k in (0, 1)} for name in (text, "b")
    }
    return "\n".join(as_markdown(ComparisonTable.of(MadeUp(config=None, splits=(0, 1)), rows)))


PLACES: dict[str, Callable[[str], str]] = {
    "the model card": card_of, "the README": readme_of, "a comparison": comparison_of,
}  # fmt: skip


def mark(place: str, text: str) -> None:
    """Render a page with a name; it must have the tags of the page with a plain name."""
    shown = [tags_of(PLACES[place](name)) for name in ("plain", text)]
    assert shown[0] == shown[1], f"{shown[1]} in place of {shown[0]}"


def tags_of(page: str) -> list[str]:
    from markdown_it import MarkdownIt

    body = re.sub(r"\A---\n.*?\n---\n", "", page, flags=re.DOTALL)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    return [re.sub(r' (class|id)="[^"]*"', "", tag) for tag in TAGS.findall(html)]


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield the same cases for every seed."""
    sizes = ((2, 3), (2, 1), (1, 2), (3, 40))  # of the batch of the state, and of the next one
    every = [
        *(("compare", f"{end} at {cut:.1%} of a line", partial(interrupt, cut, end))
          for end, cut in product(("killed", "full disk"), SHARES)),
        *(("compare", f"damaged at {position:.0%}", partial(damage, position))
          for position in (0.0, 0.1, 0.5, 0.9, 0.999)),
        *(("metrics", f"{count} classes", partial(write_classes, count))
          for count in (100, 1000, 2600, 6000)),
        *(("states", f"{name}, {size} to {other}", partial(other_batch, name, size, other))
          for name, (size, other) in product(LAYERS, sizes)),
        *(("Markdown", f"{name} in {place}", partial(mark, place, MARKUP[name]))
          for name, place in product(MARKUP, PLACES)),
    ]  # fmt: skip
    for group, name, run in every[:: max(1, round(1 / share))]:
        yield Case(group, f"{group}: {name}", run)


SUITES = {
    "written_results": Suite(
        "Results were written to a failing disk or killed, had thousands of classes, names with "
        "markup, or a state of another batch: every unit is kept, the file is read again, 5 s, "
        "1 GiB, a name is text, and the state is refused",
        cases,
        setup,
    )
}
