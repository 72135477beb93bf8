"""The recipe of L19 Table 3: sizes, settings of each text, runs, refusals."""

from __future__ import annotations

import pytest
import torch

from language_samples import estimator_of
from papers.language_text import write_text
from representer.estimators.language_training import network_config
from representer.models import LanguageNetwork
from representer.nn.recurrent.machine import RecurrentKernelMachine
from representer.options.language import LanguageConfig
from representer.tasks.recipe import Request
from representer_papers.rkm2019.language import LANGUAGE, VARIANTS
from representer_papers.shared import language as shared_language

PAPER = {  # parameters on the Penn Treebank, two bias vectors on every gate
    "lstm": 24_221_600, "rkm-lstm": 24_221_600, "rkm-cifg": 19_168_700,
    "linear-kernel-gated": 14_115_800,
}  # fmt: skip


def build(options, words: int) -> LanguageNetwork:
    with torch.device("meta"):  # counted, not made
        return LanguageNetwork(network_config(estimator_of(LanguageConfig(**options)), words))


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def missing_biases(model: LanguageNetwork) -> int:
    """Return how many parameters the single biases save against two per gate."""
    missing = 0
    for layer in model.layers:
        assert isinstance(layer, RecurrentKernelMachine)
        own = sum(p.numel() for name, p in layer.named_parameters() if name.startswith("bias"))
        missing += 2 * len(layer.cell.gates) * layer.hidden_size - own
    return missing


@pytest.mark.parametrize("cell", PAPER)
def test_parameter_counts_differ_from_the_paper_only_by_single_biases(cell):
    (variant,) = [v for v in VARIANTS["ptb"] if v.name == cell]
    model = build(variant.options, 10_000)
    norms = sum(p.numel() for name, p in model.named_parameters() if "cell_norm" in name)
    assert norms == (2 * (1150 + 1150 + 400) if cell == "rkm-lstm" else 0)
    assert count(model) - norms + missing_biases(model) == PAPER[cell]
    single = {"lstm": 4, "rkm-lstm": 3, "rkm-cifg": 2, "linear-kernel-gated": 1}[cell]
    gates = {"lstm": 4, "rkm-lstm": 4, "rkm-cifg": 3, "linear-kernel-gated": 2}[cell]
    assert PAPER[cell] - count(model) + norms == (2 * gates - single) * (1150 + 1150 + 400)


@pytest.mark.parametrize(
    ("dataset", "words", "parameters"),
    [("ptb", 10_000, 24_221_600), ("wikitext-2", 33_278, 33_556_078)],
)
def test_with_torch_lstm_the_parameter_count_is_that_of_the_paper(dataset, words, parameters):
    options = {**VARIANTS[dataset][0].options, "cell": "torch-lstm"}
    assert count(build(options, words)) == parameters


def request(tmp_path, **changes):
    values = {"data": tmp_path / "data", "out": tmp_path / "out", "smoke": True, "threads": 1}
    return Request(**{**values, **changes})


@pytest.fixture
def texts(tmp_path):
    write_text(tmp_path / "data", "ptb")
    return write_text(tmp_path / "data", "wikitext-2")


def test_the_default_is_four_cells_on_both_texts(texts, tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        shared_language.tables,
        "run_missing",
        lambda *given: ran.append([run.folder for run in given[2]]),
    )
    (tmp_path / "out").mkdir()
    LANGUAGE.run(request(tmp_path))
    out = tmp_path / "out"
    assert ran == [[out / name / f"{c}-seed0" for c in PAPER] for name in ("ptb", "wikitext-2")]
