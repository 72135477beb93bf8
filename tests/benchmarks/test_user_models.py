"""Random models of users export to ONNX, and layers with a state read sequences in any parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from representer import nn
from representer.export import to_onnx
from representer.export.programs import TOLERANCE, onnx_run

Bench = Callable[[str], ModuleType]
FEW, MODELS, SPLITS = 2, 200, 1000


@pytest.mark.parametrize("seeds", [
    range(FEW),
    pytest.param(range(FEW, MODELS, 19), marks=pytest.mark.slow),
    pytest.param(range(FEW, MODELS), marks=[pytest.mark.slow, pytest.mark.sweep]),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_random_models_of_users_are_right_in_onnx(seeds: range, bench: Bench):
    """An embedding, a convolution, layers and a head; two inputs; shared layers; true lengths."""
    user_models = bench("user_models")
    found = {seed: user_models.difference(seed) for seed in seeds}
    assert {seed: worst for seed, worst in found.items() if not worst <= TOLERANCE} == {}
    assert len({user_models.UserModel(seed).shape for seed in seeds}) == min(4, len(seeds))


@pytest.mark.parametrize("count", [5, pytest.param(SPLITS, marks=pytest.mark.slow)])
def test_random_splits_of_a_sequence_equal_the_whole_in_onnx(
    count: int, bench: Bench, tmp_path: Path
):
    torch.manual_seed(0)
    layer = nn.RKMCIFG(3, 4, 2, filter_length=2).eval()
    to_onnx(layer, tmp_path / "layer.onnx", state=True)
    run = onnx_run(tmp_path / "layer.onnx", threads=1)
    assert bench("user_models").split_difference(layer, run, count) <= TOLERANCE
    wrong = bench("user_models").split_difference(
        layer, lambda x, *state: run(x, *(0 * part for part in state)), 3
    )
    assert wrong > 100 * TOLERANCE
