"""Exported runs predict what the estimators do, without torch."""

from __future__ import annotations

import io
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from both_halves import with_both
from representer import hub
from representer.data.text import tokenize
from representer.errors import ArgumentError, KindError, RunFolderError
from representer.estimators import (
    GraphClassifier,
    LanguageModel,
    SequenceClassifier,
    SignalClassifier,
    TextClassifier,
    TextRegressor,
)
from representer.export import export_run, scores
from representer.export.content import word_rules
from representer.export.programs import TOLERANCE
from representer.export.runs import PROGRAMS, bundled

from .conftest import LABELS, TEXTS, Exported

OTHERS = ["a film", "not one of these words", "good , good ; very GOOD film indeed and so on", "x"]
ODD = ["don't", "The cat's 3.5 kg -- isn't it?", "Ünï\u0308cödé’s b2b o'clock", "1,000.5 ... ---",
       "nan infinity 1e5 1e e5 br library i.e., I.E. a.k.a. 7.50!", "नमस्ते", " \t\x1c\n", "",
       "a" + "\u0301" * 40]  # fmt: skip


TASKS = ["text", "graph", "molecule", "signal", "series", "sequence", "language"]


def write_program(exported: Exported, task: str, folder: Path) -> None:
    """Write the program of a task beside a setup with the keys that it reads at the beginning."""
    setup = json.loads((exported.run.folder / "preprocessing.json").read_text(encoding="utf-8"))
    more = {
        "alphabet": [], "codes": {}, "width": 1, "level": "word", "kernel": {"weight": 0},
        "model": None,
    }  # fmt: skip
    (folder / "preprocessing.json").write_text(json.dumps(setup | more), encoding="utf-8")
    (folder / "predict.py").write_text(bundled(f"{PROGRAMS}.{task}"), encoding="utf-8")


def main(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run predict.py, and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["predict.py", *words])
    try:
        runpy.run_path(str(folder / "predict.py"), run_name="__main__")
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def program(folder: Path) -> dict[str, Any]:
    """Return the functions of predict.py."""
    return runpy.run_path(str(folder / "predict.py"))


def test_predict_py_computes_the_predictions_of_both_parts(exported: Exported):
    estimator, run = exported
    assert estimator.pool_.kernel > 0
    assert estimator.pool_.network > 0
    found = program(run.folder)["predict"]([*TEXTS, *OTHERS])
    with pytest.warns(UserWarning, match="nothing that training had"):
        expected = estimator.predict_proba([*TEXTS, *OTHERS])
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert run.left_out == ""


def test_predict_py_runs_without_torch_and_this_library(exported: Exported):
    blocked = "import runpy, sys; sys.modules |= dict.fromkeys(['torch', 'representer']); "
    script = (
        blocked + "sys.argv[:] = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    words = [sys.executable, "-c", script, str(exported.run.folder / "predict.py"), *TEXTS[:2]]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    predicted = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert predicted == [*exported.estimator.predict(TEXTS[:2])]


@pytest.mark.parametrize("scheme", ["words", "blanks", "leam"])
def test_predict_py_finds_the_words_of_the_training(
    exported: Exported, scheme: str, tmp_path: Path
):
    for name in ("model.onnx", "predict.py"):
        shutil.copy(exported.run.folder / name, tmp_path)
    setup = json.loads((exported.run.folder / "preprocessing.json").read_text(encoding="utf-8"))
    (tmp_path / "preprocessing.json").write_text(json.dumps(setup | word_rules(scheme)))
    words = program(tmp_path)["words"]
    for text in ODD:
        assert words(text) == tokenize(text, scheme), text  # type: ignore[arg-type]


def test_the_files_have_sizes_times_and_differences(exported: Exported):
    torch_, onnx, int8 = exported.run.files
    assert [torch_.name, onnx.name, int8.name] == ["torch", "model.onnx", "model.int8.onnx"]
    for file in (onnx, int8):
        assert file.bytes == (exported.run.folder / file.name).stat().st_size
        assert len(file.parity) == 3
        assert file.milliseconds > 0
    assert int8.bytes < onnx.bytes
    assert max(each.difference for each in onnx.parity) <= TOLERANCE
    assert TOLERANCE < max(each.difference for each in int8.parity) < 0.1


def test_scores_of_every_file_are_those_of_the_run(exported: Exported):
    wrong = [LABELS[0]] * len(LABELS)  # right for half of them
    found = scores(exported.estimator, exported.run, TEXTS, wrong)
    assert list(found) == ["both", "network"]
    for answer, own in found.items():
        expected = exported.estimator.part(answer).score(TEXTS, wrong)
        assert own == dict.fromkeys(("torch", "model.onnx", "model.int8.onnx"), expected)


def test_runs_that_cannot_be_exported_are_refused(exported: Exported, tmp_path: Path):
    quick = {"epochs": 1, "random_state": 0, "verbose": 0}
    kernel = TextClassifier(answer="kernel", **quick).fit(TEXTS, LABELS)
    with pytest.raises(KindError, match=r"of a kernel alone.*--answer network or both"):
        export_run(kernel, tmp_path, "torch")
    with pytest.raises(ArgumentError, match="to is 'tflite'; expected 'onnx' or 'torch'"):
        export_run(exported.estimator, tmp_path, "tflite")
    with pytest.raises(ArgumentError, match="int8 is True; expected False for torch"):
        export_run(exported.estimator, tmp_path, "torch", int8=True)
    assert not list(tmp_path.iterdir())


def test_sequences_are_read_from_fasta_and_a_kernel_network_goes_to_onnx_alone(tmp_path: Path):
    sequences = ["ACGTACGT", "TTTTAACC"] * 6
    estimator = SequenceClassifier(answer="both", epochs=1, hidden_size=4, verbose=0)
    estimator.fit(sequences, ["a", "b"] * 6)
    with pytest.raises(KindError, match=r"network is a kernel's.*layer for torch\. Export to ONNX"):
        export_run(estimator, tmp_path / "torch", "torch")
    read = program(export_run(estimator, tmp_path / "onnx").folder)["read"]
    (tmp_path / "some.fasta").write_text(">one\nACGT\nacgt\n\n>two\nTTTT\n", encoding="utf-8")
    (tmp_path / "lines.txt").write_text("ACGT\nTT\n", encoding="utf-8")
    assert read([str(tmp_path / "some.fasta")]) == ["ACGTACGT", "TTTT"]
    assert read([str(tmp_path / "lines.txt"), "CC"]) == ["ACGT", "TT", "CC"]


@pytest.mark.parametrize("kind", ["folder", "file", "missing"])
def test_links_in_a_run_of_someone_else_are_not_followed(
    exported: Exported, tmp_path: Path, kind: str
):
    """Without --out the folder is RUN/onnx, RUN/torch or RUN/hub."""
    outside = tmp_path / "outside"
    if kind == "folder":
        outside.mkdir()
        (outside / "predict.py").write_text("precious")
    elif kind == "file":
        outside.write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "onnx").symlink_to(outside)
    for write in (export_run, hub.save_pretrained):
        with pytest.raises(RunFolderError, match="onnx is not a folder but a link or a file"):
            write(exported.estimator, tmp_path / "onnx")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "onnx"])


@pytest.mark.parametrize("task", TASKS)
def test_a_program_without_arguments_says_how_it_is_used(
    exported: Exported, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    write_program(exported, task, tmp_path)
    monkeypatch.setattr(sys, "argv", ["predict.py"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(tmp_path / "predict.py"), run_name="__main__")
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python predict.py ")


def test_a_program_prints_its_options(
    exported: Exported, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    assert main(exported.run.folder, monkeypatch, "--help") == 0
    assert "- for standard input" in " ".join(capsys.readouterr().out.split())


def test_a_program_reads_files_and_standard_input(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    (tmp_path / "texts.txt").write_bytes("\ufeffa good film\r\nvery bad indeed\n".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"very good\n")))
    assert main(exported.run.folder, monkeypatch, str(tmp_path / "texts.txt"), "-", "a film") == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    texts = ["a good film", "very bad indeed", "very good", "a film"]
    assert [line[-1] for line in lines] == texts
    assert [line[0] for line in lines] == [*exported.estimator.predict(texts)]


def test_a_program_writes_json(exported: Exported, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    assert main(exported.run.folder, monkeypatch, "--json", "a good film") == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = exported.estimator.predict_proba(["a good film"])
    assert found["prediction"] == exported.estimator.predict(["a good film"])[0]
    np.testing.assert_allclose([*found["probabilities"].values()], row, atol=TOLERANCE)


@pytest.mark.parametrize("task", ["graph", "series", "signal"])
def test_input_that_cannot_be_read_is_one_line_and_exit_code_2(
    exported: Exported, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    write_program(exported, task, tmp_path)
    (tmp_path / "broken").write_text("{broken\n")
    assert main(tmp_path, monkeypatch, str(tmp_path / "broken")) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


def test_a_program_without_a_part_ends_with_exit_code_3(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    shutil.copytree(exported.run.folder, tmp_path, dirs_exist_ok=True)
    setup = json.loads((tmp_path / "preprocessing.json").read_text(encoding="utf-8"))
    text = json.dumps(setup | {"left_out": "the kernel machine"})
    (tmp_path / "preprocessing.json").write_text(text, encoding="utf-8")
    assert main(tmp_path, monkeypatch, "a film") == 3
    assert "incomplete: the run predicts with the kernel machine, too" in capsys.readouterr().err


@pytest.mark.slow
def test_numbers_are_predicted_in_their_unit(tmp_path: Path):
    model = TextRegressor(epochs=1, random_state=0, verbose=0)
    model.fit(TEXTS, [10.0 + len(text) for text in TEXTS])
    export_run(model, tmp_path)
    found = program(tmp_path)["predict"](OTHERS)
    with pytest.warns(UserWarning, match="nothing that training had"):
        np.testing.assert_allclose(found[:, 0], model.predict(OTHERS), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("standardize", ["window", "training", "none", "subject"])
def test_windows_are_classified_as_by_the_run(standardize: str, tmp_path: Path):
    windows = np.random.default_rng(0).normal(3, 2, size=(20, 2, 200)).astype(np.float32)
    is_before = standardize == "subject"  # as by `fit signal`, which standardizes them itself
    kind = "none" if is_before else standardize
    model = SignalClassifier(
        sampling_rate=100, standardize=kind, epochs=1, random_state=0, verbose=0
    )
    model.fit(windows, ["a", "b"] * 10)
    model.reading_ = {"is_standardized_by_subject": is_before}
    model.save(tmp_path / "run")
    assert not export_run(tmp_path / "run", tmp_path).left_out
    for samples in (200, 197):  # no multiple of the stride
        own = program(tmp_path)
        given = windows[:, :, :samples]
        setup = own["SETUP"]["targets"][0]
        if samples < 200:  # the bands of the kernel are those of one length
            setup |= {"kernel": 0.0, "network": model.part("network").pool_.network}
        found = own["predict"](given)
        if is_before:
            given = (given - given.mean((0, 2), keepdims=True)) / given.std((0, 2), keepdims=True)
        part = model if samples == 200 else model.part("network")
        np.testing.assert_allclose(found, part.predict_proba(given), atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["text", "numbers", "degrees"])
def test_graphs_are_predicted_as_by_the_run(labels: str, tmp_path: Path):
    nx = pytest.importorskip("networkx")
    rng, graphs, lines = np.random.default_rng(0), [], []
    for k in range(12):
        graph = nx.path_graph(4 + k % 3) if k % 2 else nx.star_graph(17 + k % 3)
        if k % 4 == 1:
            graph.add_edge(0, 0)  # which has one direction
        if labels == "text":
            nx.set_node_attributes(graph, {v: "CO"[v % 2] for v in graph}, "x")
            nx.set_edge_attributes(graph, {e: sum(e) % 2 for e in graph.edges}, "edge_attr")
        if labels == "numbers":
            nx.set_node_attributes(graph, {v: [v % 2, *rng.normal(size=2)] for v in graph}, "x")
            edge_numbers = {edge: rng.normal(size=1).tolist() for edge in graph.edges}
            nx.set_edge_attributes(graph, edge_numbers, "edge_attr")
        graphs.append(graph)
        nodes = [own.get("x", 0) for _, own in graph.nodes(data=True)]
        edges = [[u, v, *own.values()] for u, v, own in graph.edges(data=True)]
        edges += [[v, u, *own] for u, v, *own in edges[k % 3 :]]  # some of them in both directions
        lines.append({"nodes": nodes, "edges": edges})
    model = GraphClassifier(members=2, epochs=1, hidden_size=8, random_state=0, verbose=0)
    model = with_both(model.fit(graphs, ["a", "b"] * 6))
    export_run(model, tmp_path)
    assert json.loads((tmp_path / "preprocessing.json").read_text())["has_degrees"] == (
        labels == "degrees"
    )
    found = program(tmp_path)["predict"](lines)
    np.testing.assert_allclose(found, model.predict_proba(graphs), atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["word", "char"])
def test_a_text_is_continued_as_by_the_run(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    model = LanguageModel(level=level, hidden_size=16, epochs=1, random_state=0, verbose=0)
    model.fit("the cat sat on the mat\n" * 50)
    export_run(model, tmp_path)
    own = program(tmp_path)
    numbers = own["numbers_of"]("the dog\nsat")
    assert numbers == model.inputs_.encode_prompt("the dog\nsat")
    logs, state = own["read"](numbers[:3], own["start"]())
    logs, state = own["read"](numbers[3:], state)
    wanted, _ = model.predictor_.read(torch.tensor(numbers))
    assert model.pool_.kernel > 0
    np.testing.assert_allclose(logs, wanted[-1], atol=TOLERANCE)
    assert main(tmp_path, monkeypatch, "the cat", "4", "--json") == 0
    line = json.loads(capsys.readouterr().out)
    assert line["prompt"] == "the cat"
    assert len(line["tokens"]) == 4
    assert line["text"] == {"word": " ", "char": ""}[level].join(["the cat", *line["tokens"]])
    assert main(tmp_path, monkeypatch, "the cat", "4") == 0
    assert capsys.readouterr().out == line["text"] + "\n"
    for count in ("four", "-4", "4.0"):
        assert main(tmp_path, monkeypatch, "the cat", count) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.endswith(
            f"the number of tokens is '{count}'; expected a number such as 20\n"
        )
