"""Compare a layer with its recurrence on a small random sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from representer.functional import ngram_product_definition, rkm_scan
from representer.nn import TABLE1
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine

TIME, BATCH, FEATURES, UNITS, LENGTH = 6, 2, 3, 4, 3


def deviation(name: str) -> float:
    """Return the largest difference between a cell of L19 Table 1 and ``functional``.

    Both run in float64.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = TABLE1[name](FEATURES, UNITS, filter_length=LENGTH, layer_norm=True).double()
    x = torch.randn(TIME, BATCH, FEATURES, generator=generator, dtype=torch.float64)
    norm = layer.cell_norm()
    assert norm is not None
    with torch.no_grad():
        computed, _ = layer(x)
        expected, _, _ = rkm_scan(
            _pre_activations(layer, x),
            torch.stack(list(layer.recurrent().values())) if layer.recurrent() else None,
            x.new_zeros(BATCH, UNITS),
            x.new_zeros(BATCH, UNITS),
            cell=layer.cell,
            static=layer.static_gates(),
            norm=torch.stack([norm.weight, norm.bias]),
        )
    return float((computed - expected).abs().max())


def _pre_activations(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    """Return z ``(T, B, gates, units)``, the n-gram products plus biases."""
    biases = layer.biases()
    gates = [
        ngram_product_definition(x, filters) + biases.get(gate, 0.0)
        for gate, filters in layer.filters().items()
    ]
    return torch.stack(gates, dim=-2)
