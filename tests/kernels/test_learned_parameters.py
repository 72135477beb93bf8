"""Numbers of kernels that are learned by gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from representer.data.molecules import read_smiles
from representer.errors import ArgumentError, KindError
from representer.kernels import Cosine, RandomWalkKernel, StringKernel
from representer.kernels.composition import check_bounds, with_values
from representer.kernels.gram import as_array

RNG = np.random.default_rng(0)
TEXTS = ["".join(RNG.choice(list("abcd"), 10)) for _ in range(40)]
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
GRAPHS = [Data(x=torch.tensor(RNG.normal(size=(3, 2))), edge_index=EDGES) for _ in range(4)]


def text_kernel(decay: float) -> Cosine:
    """Return the kernel of pairs of letters."""
    return StringKernel(2, decay, base="delta").cosine()


CASES = {
    "texts": (text_kernel(0.5), TEXTS[:5], "kernel__decay"),
    "tokens": (StringKernel(3, 0.6, base="delta"), [[*text] for text in TEXTS[:5]], "decay"),
    "vectors in time": (StringKernel(2, 0.4), [RNG.normal(size=(4, 2)) for _ in range(4)], "decay"),
    "graphs": (RandomWalkKernel(2, 0.5), GRAPHS, "decay"),
    "molecules": (RandomWalkKernel(2, 0.5), [*map(read_smiles, ("CCO", "CCC", "CO"))], "decay"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_with_a_number_that_requires_a_gradient_returns_tensors(name):
    kernel, objects, learned = CASES[name]
    decay = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    K = with_values(kernel, {learned: decay})(objects)
    expected = with_values(kernel, {learned: 0.5})(objects)
    assert (type(expected) is np.ndarray) == (name != "graphs")
    np.testing.assert_allclose(as_array(K), as_array(expected), rtol=1e-9)
    assert torch.autograd.grad(K.sum(), decay)[0] != 0


def test_only_numbers_inside_their_bounds_are_learned():
    check_bounds(text_kernel(0.5), {"kernel__decay": (0.1, 0.9)})
    with pytest.raises(KindError, match=r"the parameter kernel__base is 'delta'"):
        check_bounds(text_kernel(0.5), {"kernel__base": (0.1, 0.9)})
    with pytest.raises(KindError, match=r"expected a kernel of representer.kernels"):
        check_bounds("string", {})  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"kernel__decay is 0\.5"):
        check_bounds(text_kernel(0.5), {"kernel__decay": (0.5, 0.9)})
