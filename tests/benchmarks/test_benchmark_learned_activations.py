"""The comparison of learned activations: its baselines are right, its table is complete."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline


@pytest.fixture
def baselines(bench) -> ModuleType:
    return bench("activation_peers")


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_splines_are_those_of_scipy(baselines: ModuleType, order: int):
    knots = torch.arange(10, dtype=torch.float64) / 3 - 1
    ends = float(knots[order]), float(knots[-order - 1])
    inside = torch.linspace(*ends, 23, dtype=torch.float64)[:-1]
    expected = BSpline.design_matrix(inside.numpy(), knots.numpy(), order).toarray()
    actual = baselines.b_splines(inside, knots, order)
    assert np.allclose(actual.numpy(), expected, rtol=0, atol=1e-12)


def test_a_spline_layer_sums_a_function_of_every_edge(baselines: ModuleType):
    layer = baselines.SplineLayer(3, 2)
    x = torch.rand(4, 3) * 2 - 1
    assert sum(p.numel() for p in layer.parameters()) == 3 * 2 * (1 + 8)
    whole = layer(x)
    zero = layer(torch.zeros(1, 3))
    alone = [layer(torch.zeros(4, 3).index_copy(1, torch.tensor([i]), x[:, [i]])) for i in range(3)]
    torch.testing.assert_close(sum(alone) - 2 * zero, whole, rtol=1e-4, atol=1e-6)


def test_kafnets_function_begins_as_the_elu(baselines: ModuleType):
    x = torch.linspace(-2.5, 2.5, 50)[:, None].expand(-1, 2)
    assert (
        baselines.KernelActivationFunction(2)(x) - torch.nn.functional.elu(x)
    ).abs().max() < 0.05


def test_every_candidate_is_trained_and_in_the_table(bench):
    module = bench("learned_activations")
    makers = {"plain": module.PLAIN, "recurrent": module.RECURRENT}
    found = {
        title: {name: [module.Run(50.0, 7, 1.0)] for name in models}
        for title, models in makers.items()
    }
    for models in makers.values():
        for make in models.values():
            assert make()(torch.randn(2, 64)).shape == (2, 10)
    found["plain"]["ReLU"] = [module.train(module.PLAIN["ReLU"], seed, 3) for seed in (0, 1)]
    assert all(run.accuracy > 80 for run in found["plain"]["ReLU"])  # of ten classes
    text = module.page(found, 3, 2, ("0", "0"))
    first = sum(run.accuracy for run in found["plain"]["ReLU"]) / 2
    assert f"| ReLU | {first:.2f} ± " in text
    names = [name for models in makers.values() for name in models if name != "ReLU"]
    assert all(f"| {name} | 50.00 ± 0.00 | 7 |" in text for name in names)


def test_parameters_of_the_smaller_spline_network_are_near_ours(bench):
    module = bench("learned_activations")
    ours, kan = (
        sum(p.numel() for p in module.PLAIN[name]().parameters())
        for name in ("KernelActivation, from ReLU", "KAN of as many parameters")
    )
    assert kan == pytest.approx(ours, rel=0.25)


def test_accuracy_is_that_of_the_held_out_images(bench, monkeypatch: pytest.MonkeyPatch):
    module = bench("learned_activations")
    split, states = module.train_test_split, []

    def with_wrong_labels(*arrays, random_state, **options):
        states.append(random_state)
        x, x_test, y, y_test = split(*arrays, random_state=random_state, **options)
        return x[:320], x_test, y[:320] % 2, y_test * 0 + 9  # 9 is never trained

    monkeypatch.setattr(module, "train_test_split", with_wrong_labels)
    assert [module.train(module.PLAIN["ReLU"], seed, 2).accuracy for seed in (0, 3)] == [0, 0]
    assert states == [0, 3]


def test_times_are_relative_to_the_first_row(bench):
    module = bench("learned_activations")
    runs = {"ReLU": [module.Run(50, 7, 1.0)], "tanh": [module.Run(60, 7, 4.0)]}
    assert "| tanh | 60.00 ± 0.00 | 7 | 4.000 | 4.00 |" in module._table(runs)
