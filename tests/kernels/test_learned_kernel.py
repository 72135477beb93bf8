"""The learned kernel of a gated layer: its arguments, forms of objects, and where it is used."""

from __future__ import annotations

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from torch_geometric.data import Data

from representer.errors import ArgumentError, KindError, NoKernelError, ShapeError
from representer.kernels import (
    GaussianProcessKernel,
    GPyTorchKernel,
    GramTransformer,
    LearnedKernel,
    LearnedUnit,
    Nystroem,
    gram,
)
from representer.nn import (
    RKM,
    RKMCIFG,
    RKMLSTM,
    NgramLSTM,
    RandomWalkKernelNN,
    StringKernelRNN,
    TreeKernelNN,
    WLKernelNN,
)

F64 = torch.float64


def sequences(count: int = 6, features: int = 3) -> list[torch.Tensor]:
    return [torch.randn(1 + (3 * i) % 5, features, dtype=F64) for i in range(count)]


def layers() -> list[torch.nn.Module]:
    return [RKMCIFG(3, 4, dtype=F64), StringKernelRNN(3, 4, dtype=F64)]


def test_it_has_the_parameters_of_an_estimator():
    layer = RKMCIFG(3, 4)
    k = LearnedKernel(layer)
    assert k.get_params() == {"layer": layer}
    assert repr(k) == "LearnedKernel(layer=RKMCIFG(3, 4))"
    assert k.unit(2).get_params() == {"layer": layer, "index": 2}
    assert isinstance(k.unit(2), LearnedUnit)
    assert k.objects == "sequences"
    assert LearnedKernel(RandomWalkKernelNN(3, 4, decay="gated")).objects == "graphs"


@pytest.mark.parametrize("layer", layers(), ids=["cell", "chain"])
def test_arrays_give_arrays_and_tensors_tensors_with_gradients(layer):
    k, X = LearnedKernel(layer), sequences()
    arrays = [x.numpy() for x in X]
    assert isinstance(k(arrays), np.ndarray)
    np.testing.assert_allclose(k(arrays), k(X).detach(), rtol=1e-12)
    np.testing.assert_allclose(k.diag(arrays), k.diag(X).detach(), rtol=1e-12)
    np.testing.assert_allclose(k.unit(1).value(arrays), k.unit(1).value(X).detach(), rtol=1e-12)
    assert k(X).requires_grad
    assert k(X, []).shape == (6, 0)
    assert k([]).shape == (0, 0)
    assert k.diag([]).shape == (0,)
    assert k.unit(0).value([]).shape == (0,)


def test_a_layer_of_another_precision_takes_numbers_of_every_precision():
    layer = RKMCIFG(3, 4)
    k, X = LearnedKernel(layer), sequences()
    assert k(X).dtype == F64
    exact = LearnedKernel(RKMCIFG(3, 4, dtype=F64))
    exact.layer.load_state_dict(layer.state_dict())
    torch.testing.assert_close(k(X), exact(X), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(k([x.float() for x in X]).double(), exact(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", layers(), ids=["cell", "chain"])
def test_sequences_that_are_empty_or_too_short_have_the_kernel_0(layer):
    k = LearnedKernel(layer)
    x = torch.randn(4, 3, dtype=F64)
    empty = torch.zeros(0, 3, dtype=F64)
    K = k([x, empty, torch.zeros(0, dtype=F64)])
    assert K[0, 0] > 0
    assert not K[1:].any()
    assert not K[:, 1:].any()
    assert not k([empty], [empty]).any()
    assert not k.diag([empty]).any()
    assert not k.unit(0).value([empty]).any()
    if isinstance(layer, StringKernelRNN):
        assert not k([x[:1]], [x]).any()


@pytest.mark.parametrize("order", [1, 2])
def test_blocks_of_few_units_and_sequences_give_the_same_values(order, monkeypatch):
    """With X much longer than Y, both sides are divided alike."""
    k = LearnedKernel(StringKernelRNN(3, 5, order=order, dtype=F64))
    X = sequences(70)
    K, cross, squares = k(X), k(X, X[:2]), k.diag(X)
    torch.testing.assert_close(cross, K[:, :2])
    for entries in (300, 2000):
        monkeypatch.setattr("representer.kernels.learned_kernel.ENTRIES", entries)
        monkeypatch.setattr("representer.ops.held.ENTRIES", entries)
        torch.testing.assert_close(k(X), K)
        torch.testing.assert_close(k(X, X[:2]), cross)
        torch.testing.assert_close(k.diag(X), squares)


def test_the_mode_of_the_layer_does_not_matter_and_stays():
    layer = RKMLSTM(3, 4, variational_dropout=0.5, weight_drop=0.5, dtype=F64)
    k, X = LearnedKernel(layer), sequences()
    expected = LearnedKernel(layer.eval())(X)
    layer.train()
    assert torch.equal(k(X), expected)
    assert layer.training


def test_a_unit_is_linear_in_its_reference():
    unit, X = LearnedKernel(RKMCIFG(3, 4, dtype=F64)).unit(1), sequences()
    r = unit.reference
    torch.testing.assert_close(unit.value(X, 2 * r), 2 * unit.value(X))
    assert r.shape == (1, 7)
    with pytest.raises(ShapeError, match=r"reference .*\(1, 7\)"):
        unit.value(X, r[:, :3])
    nodes, edges = LearnedKernel(
        RandomWalkKernelNN(3, 4, decay="gated", edge_dim=2)
    ).unit(0).reference  # fmt: skip
    assert (nodes.shape, edges.shape) == ((2, 3), (1, 2))
    of_levels = WLKernelNN(3, 4, 3, label_channels=0, share_references=False)
    assert LearnedKernel(of_levels).unit(0).reference.shape == (3, 2, 3)


def test_the_error_for_a_layer_without_a_learned_kernel_states_the_reason():
    assert RKMLSTM(3, 4).not_linear() == StringKernelRNN(3, 4).not_linear() == ""
    with pytest.raises(NoKernelError, match="Its candidate passes through tanh"):
        LearnedKernel(NgramLSTM(3, 4))
    with pytest.raises(NoKernelError, match="subtracts the mean of all units"):
        LearnedKernel(RKMLSTM(3, 4, layer_norm=True))
    with pytest.raises(NoKernelError, match=r"layer\.kernel is that of the last one"):
        LearnedKernel(RKMLSTM(3, 4, 2))
    with pytest.raises(KindError, match=r"layer .*expected a recurrent layer"):
        LearnedKernel(torch.nn.LSTM(3, 4))
    with pytest.raises(ArgumentError, match="index is 4; expected"):
        LearnedKernel(RKMLSTM(3, 4)).unit(4)


def test_objects_that_the_layer_cannot_read_are_named():
    k = LearnedKernel(RKMCIFG(3, 4, dtype=F64))
    with pytest.raises(ShapeError, match=r"X\[0\].*\(time, 3\), as the layer reads them"):
        k([torch.randn(4, 2, dtype=F64)])
    with pytest.raises(ShapeError, match=r"\(2 k, 3\)"):
        LearnedKernel(RKMCIFG(3, 4, stride=2, dtype=F64))([torch.randn(3, 3, dtype=F64)])
    with pytest.raises(ArgumentError, match=r"X\[0\]\[1, 0\]"):
        k([np.array([[1.0, 2, 3], [np.nan, 0, 0]])])
    walks = LearnedKernel(RandomWalkKernelNN(3, 4, decay="gated"))
    with pytest.raises(ShapeError, match="in_channels"):
        walks([Data(x=torch.ones(2, 5), edge_index=torch.zeros(2, 0, dtype=torch.int64))])


GRAPH = Data(
    x=torch.ones(3, 3, dtype=F64), edge_index=torch.tensor([[0, 1], [1, 2]]),
    edge_attr=torch.ones(2, 2, dtype=F64),
)  # fmt: skip


@pytest.mark.parametrize(("layer", "steps", "options"), [
    (RKMCIFG(3, 4, dtype=F64), 1, {}),
    (StringKernelRNN(3, 4, order=3, dtype=F64), 3, {}),
    (StringKernelRNN(3, 4, order=3, readout="sum", dtype=F64), 1, {}),
    (RandomWalkKernelNN(3, 4, 2, "gated", edge_dim=2, dtype=F64), 2, {"edge_dim": 2}),
    (TreeKernelNN(3, 4, 2, "gated", dtype=F64), 2, {}),
])  # fmt: skip
def test_its_network_compares_objects_with_learned_references_by_the_gates(layer, steps, options):
    kernel = LearnedKernel(layer)
    net = (2.0 * kernel).network(3, 5, dtype=F64, **options)
    X = sequences() if kernel.objects == "sequences" else [GRAPH, GRAPH]
    assert kernel.shortest_reference() == steps
    values = net.evaluate(X)
    assert values.any()
    torch.testing.assert_close(values, 2 * kernel(X, net.reference_objects()))
    values.sum().backward()
    assert any(p.grad is not None and p.grad.any() for p in layer.parameters())


def test_a_kernel_machine_is_trained_on_it():
    torch.manual_seed(0)
    X = [x.numpy() for x in sequences(30)]
    y = np.array([int(x.sum() > 0) for x in X])
    search = GridSearchCV(
        make_pipeline(GramTransformer(LearnedKernel(RKMCIFG(3, 8))), SVC(kernel="precomputed")),
        {"svc__C": [1.0, 100.0]}, cv=2,
    )  # fmt: skip
    assert search.fit(X, y).predict(X).shape == (30,)
    cosine = make_pipeline(
        GramTransformer((LearnedKernel(RKMCIFG(3, 8)) ** 2).cosine()), SVC(kernel="precomputed")
    )
    assert cosine.fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("layer", [
    RKMCIFG(3, 4, num_layers=2), StringKernelRNN(3, 4, num_layers=2, decay=0.5),
    RKM(3, 4, q="exponential", feedback=False),
], ids=lambda layer: type(layer).__name__)  # fmt: skip
def test_kernels_of_layers_whose_references_lie_elsewhere_compare_new_objects(layer):
    """Of a Y that is given to them, the objects would be taken as references."""
    X, kernel = [0.1 * x.numpy() for x in sequences(9)], 0.1 * layer.double().kernel
    assert kernel.repeats
    wanted = kernel(X)[:3, 3:]
    transformer = GramTransformer(kernel).fit(X[3:])
    np.testing.assert_allclose(transformer.transform(X[:3]), wanted, atol=1e-12)
    process = GaussianProcessKernel(kernel, X)
    values = process(np.arange(3)[:, None], np.arange(3, 9)[:, None])
    np.testing.assert_allclose(values, wanted, atol=1e-12)
    landmarks = Nystroem(kernel, 9, random_state=0).fit(X)
    features = landmarks.transform(X)
    np.testing.assert_allclose((features @ features.T)[:3, 3:], wanted, atol=1e-8)


def test_blocks_are_written_to_a_file(tmp_path):
    k, X = LearnedKernel(RKMCIFG(3, 4)), [x.numpy() for x in sequences(9)]
    K = gram(k, X, out=tmp_path / "gram.npy", block=4)
    np.testing.assert_allclose(K, k(X), rtol=1e-6, atol=1e-9)


def test_the_marginal_likelihood_of_a_gaussian_process_has_the_gradient_of_its_differences():
    torch.manual_seed(0)
    layer, X = RKMLSTM(3, 4, dtype=F64), sequences()
    y = torch.randn(6, dtype=F64)

    def loss() -> torch.Tensor:
        K = LearnedKernel(layer)(X) + 0.3 * torch.eye(6, dtype=F64)
        return -torch.distributions.MultivariateNormal(torch.zeros_like(y), K).log_prob(y)

    loss().backward()
    assert all(p.grad is not None and p.grad.any() for p in layer.parameters())
    for p in layer.parameters():
        step = torch.randn_like(p)
        values = []
        for size in (1e-5, -2e-5):
            with torch.no_grad():
                p += size * step
            values.append(loss().item())
        with torch.no_grad():
            p += 1e-5 * step
        torch.testing.assert_close(
            (values[0] - values[1]) / 2e-5, (p.grad * step).sum().item(), rtol=1e-5, atol=1e-6
        )


def test_gpytorch_learns_the_gates_unless_they_are_frozen():
    """Deep kernel learning: the layer's weights are parameters of the Gaussian process."""
    torch.manual_seed(0)
    layer, X = RKMCIFG(3, 4, dtype=F64), [x.numpy() for x in sequences(8)]
    y, rows = torch.randn(8, dtype=F64), torch.arange(8, dtype=F64)[:, None]

    class Process(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(rows, y, gpytorch.likelihoods.GaussianLikelihood().double())
            self.mean = gpytorch.means.ZeroMean()
            self.covariance = GPyTorchKernel(LearnedKernel(layer), X).double()

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covariance(x))

    process = Process()
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(process.likelihood, process)
    named = dict(process.named_parameters())
    assert any(p is layer.bias_l0 for p in named.values())
    optimizer = torch.optim.Adam(process.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = -likelihood(process(rows), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert layer.bias_l0.grad.any()
    assert losses[-1] < losses[0]
    current = LearnedKernel(layer)(X)
    found = process.covariance(rows).to_dense().detach().numpy()
    np.testing.assert_allclose(found / current, found[0, 0] / current[0, 0], rtol=1e-9)
    layer.requires_grad_(False)
    frozen = process.covariance.forward(rows, rows).detach().numpy()
    np.testing.assert_allclose(frozen, found, rtol=1e-9)
