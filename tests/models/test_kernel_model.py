"""The network of a kernel with a linear head."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ArgumentError
from representer.kernels import RandomWalkKernel, StringKernel
from representer.models import to_dict
from representer.models.kernel_model import KernelModel, KernelModelConfig, graphs_of

KERNEL = StringKernel(1) + 0.5 * StringKernel(2)


def test_an_output_is_a_function_of_the_kernels_space():
    torch.manual_seed(0)
    model = KernelModel(KernelModelConfig(KERNEL, 3, outputs=2, hidden_size=5)).double()
    x, lengths = torch.randn(4, 6, 3, dtype=torch.float64), torch.tensor([6, 2, 5, 1])
    model(x, lengths)  # the first batch of training sets the units
    model.eval()
    weights, constants = model.coefficients()
    objects = [one[:n] for one, n in zip(x, lengths.tolist(), strict=True)]
    K = KERNEL(objects, model.network.reference_objects())
    torch.testing.assert_close(model(x, lengths), K @ weights.T + constants)


def test_the_first_batch_of_training_alone_sets_the_units():
    model = KernelModel(KernelModelConfig(KERNEL, 3))
    x, lengths = torch.randn(8, 6, 3), torch.full((8,), 6)
    model.eval()(x, lengths)
    assert float(model.mean.abs().max()) == 0
    model.train()(x, lengths)
    mean = model.mean.clone()
    values = model.network.evaluate(x, lengths=lengths)
    torch.testing.assert_close(mean, values.detach().mean(0))
    model(2 * x, lengths)
    torch.testing.assert_close(model.mean, mean, rtol=0, atol=0)


def test_it_is_saved_and_loaded_without_pickle(tmp_path):
    model = KernelModel(KernelModelConfig(KERNEL, 3, hidden_size=4)).eval()
    model.save_pretrained(tmp_path / "model")
    again = KernelModel.from_pretrained(tmp_path / "model").eval()
    x, lengths = torch.randn(2, 5, 3), torch.tensor([5, 3])
    torch.testing.assert_close(again(x, lengths), model(x, lengths), rtol=0, atol=0)
    assert to_dict(again.config) == to_dict(model.config)


def test_a_batch_of_graphs_is_taken_apart():
    pytest.importorskip("torch_geometric")
    x = torch.randn(5, 2, dtype=torch.float64)
    edges, batch = torch.tensor([[0, 1, 3, 4], [1, 2, 4, 3]]), torch.tensor([0, 0, 0, 1, 1])
    first, second = graphs_of(x, edges, torch.arange(4.0)[:, None], batch, 2)
    assert first.edge_index.tolist() == [[0, 1], [1, 2]]
    assert second.edge_index.tolist() == [[0, 1], [1, 0]]
    assert second.edge_attr.tolist() == [[2.0], [3.0]]
    model = KernelModel(KernelModelConfig(RandomWalkKernel(2), 2)).double().eval()
    alone = model.network.evaluate([first, second])
    weights, constants = model.coefficients()
    expected = alone @ weights.T + constants
    torch.testing.assert_close(model(x, edges, None, batch, 2), expected)


def test_sizes_are_checked():
    with pytest.raises(ArgumentError, match="hidden_size"):
        KernelModelConfig(KERNEL, 3, hidden_size=0)


@pytest.mark.parametrize(
    "kernel", [KERNEL, StringKernel(2, 0.8, trailing=False), StringKernel(2) ** 2], ids=repr
)
def test_it_is_exported_with_any_batch_and_length(kernel):
    model = KernelModel(KernelModelConfig(kernel, 3)).eval()
    B, T = torch.export.Dim("B"), torch.export.Dim("T")
    example = torch.randn(4, 6, 3), torch.tensor([6, 2, 5, 3])
    shapes = {0: B, 1: T}, {0: B}, None, None, None
    program = torch.export.export(model, (*example, None, None, 0), dynamic_shapes=shapes)
    x, lengths = torch.randn(3, 9, 3), torch.tensor([9, 4, 2])
    expected = model(x, lengths)
    torch.testing.assert_close(program.module()(x, lengths, None, None, 0), expected)
