"""The recipe of L17 Table 1 and Fig. 3: sizes, runs, resumption, table."""

from __future__ import annotations

import json

import pytest
import torch

from language_samples import estimator_of
from representer.errors import DataError
from representer.estimators.language_training import network_config
from representer.models import LanguageNetwork
from representer.options.language import LanguageConfig
from representer.tasks.recipe import Request
from representer_papers.shared import language
from representer_papers.shared import language as shared
from representer_papers.shared.tables import Stored
from representer_papers.string_graph2017.language import LANGUAGE, VARIANTS


def request(tmp_path, **changes):
    values = {"data": tmp_path / "data", "out": tmp_path / "out", "smoke": True, "threads": 1}
    return Request(**{**values, **changes})


def parameters(options) -> int:
    with torch.device("meta"):  # counted, not made
        model = LanguageNetwork(network_config(estimator_of(LanguageConfig(**options)), 10_000))
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_variants_of_fig_3_have_equal_parameter_counts():
    sizes = {v.name: parameters(v.options) for v in VARIANTS}
    assert sizes["state"] == 5_074_430
    assert sizes["large"] == sizes["large-variational"] == 20_345_700
    assert sizes["large-deep"] == 20_450_480
    for name in ("zero", "constant", "learned", "input"):
        assert sizes[name] == pytest.approx(5_074_430, rel=1e-3)
    assert sizes["state-small"] == 1_487_376
    for name in ("zero", "constant", "learned", "input"):  # a unit more or less is 0.7 %
        assert sizes[f"{name}-small"] == pytest.approx(1_487_376, rel=4e-3)


def test_a_smaller_budget_ends_with_a_low_learning_rate():
    state = next(v for v in VARIANTS if v.name == "state")
    whole, short = shared.shortened(state.options, 1), shared.shortened(state.options, 0.1)
    assert whole == dict(state.options)
    assert (short["epochs"], short["lr_decay_from"], short["patience"]) == (10, 4, 0)
    last = short["lr_decay"] ** (short["epochs"] - short["lr_decay_from"])
    assert last == pytest.approx(1 / 50, rel=1e-3)  # the factor is kept to six digits
    assert shared.shortened(state.options, 1e-9)["epochs"] == 1
    assert "lr_decay" not in shared.shortened({"epochs": 10}, 0.5)


def test_the_validation_column_is_the_mean_over_best_epochs(tmp_path):
    def run(seed, test, *valid):
        folder = tmp_path / str(seed)
        folder.mkdir()
        rows = [{"epoch": n, "valid_perplexity": v} for n, v in enumerate(valid, 1)]
        (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
        metrics = {"parameters": {"all": 7}, "test": {"perplexity": test}}
        return Stored(folder, {"options": {"epochs": 3}, "budget": 0.5}, metrics)

    runs = {0: run(0, 100.0, 130.0, 110.0, 120.0), 2: run(2, 104.0, 120.0, 118.0, 114.0)}
    (variant,) = [v for v in VARIANTS if v.name == "state"]
    assert language._row("ptb", variant, runs, [0, 1, 2]) == (
        "λ gated on x and h, 5m", "7", "73.6", "100.00", "not run", "104.00", "102.00 ± 2.83",
        "112.00", "3 of 3 (budget 0.5)",
    )  # fmt: skip


def test_the_error_for_a_missing_text_names_its_folder(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match=r"ptb: there is no such folder. Put its train, valid"):
        LANGUAGE.run(request(tmp_path))
