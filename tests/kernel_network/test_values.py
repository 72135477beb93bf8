"""The values of networks: worked examples, random expressions, and parts that run together."""

from __future__ import annotations

import copy

import pytest
import torch

from expressions import expressions, is_same, without_repeat
from representer.errors import ArgumentError
from representer.kernel_network import no_program, values
from representer.kernel_network.objects import TokenBatch
from representer.kernel_network.values import is_fused, key_of, parts_of
from representer.kernels import (
    Activated,
    Cosine,
    DeepStringKernel,
    Embedded,
    Gaussian,
    InversePolynomial,
    Kernel,
    Linear,
    Polynomial,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
    WeisfeilerLehmanKernel,
)
from representer.kernels.composition import networks_in
from representer.nn import RKMCIFG
from representer.ops import string_scan

DRAWN = dict(enumerate(expressions(500)))
FAST = 60  # of them, that `make test` runs
CASES = [pytest.param(i, marks=[pytest.mark.slow] * (i >= FAST)) for i in DRAWN]
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def rows(*values: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


X, R, R1 = rows((1, 2), (0, 1), (-1, 1)), rows((1, -1), (2, 1)), rows((1, 0))
Z = rows((2, 1), (1, 2))
R3 = torch.cat((R, rows((0, 1))))
S1, S2 = StringKernel(1), StringKernel(2)
A = rows((0.5, -0.25), (1, 0.5), (0, 0.75))


def tanh_of_A() -> torch.nn.Module:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), torch.nn.Tanh()).double()
    module[0].weight.data.copy_(A)
    return module


EXAMPLES = [
    (S1, R, -0.875), (S2, R, 1), (S1 + S2, R, 0.125), (S1 * S2, R, -0.875), (1.5 * S2, R, 1.5),
    (S2**3, R, 1), (S2.activated(Polynomial(2)), R, 4),
    (S2.activated(Gaussian()), R, 0.000014739199), (S2.cosine(), R, 0.083770781658),
    (S2.cosine().activated(InversePolynomial()), R, 0.521858236180),
    ((S1 + S2).cosine(), R, 0.007094875590), (S2, R3, 4.5), (S1, rows((2.5, 0.5)), -0.875),
    (StringKernel(2, trailing=False), R, 0.5), (StringKernel(1, trailing=False), R, 0),
    (StringKernel(2, trailing=False), R3, 6.25), (StringKernel(2, base=Gaussian()), R,
    0.001725306464), (StringKernel(2, combine="add"), R, -3),
    (StringKernel(2, combine="add", normalized="exact"), R, -1.5),
    (DeepStringKernel((2, 2), 0.5, Linear()), R3, -4.5),
    (0.7 * StringKernel(1, 0.9), rows((1, -1)), -2.597),
    (RecurrentKernel("linear", static_gates=(0.7, 0.9)), Z, 1.33),
    (RecurrentKernel("linear", static_gates=(0.7, 0.9), filter_length=2), Z, 2.03),
    (RecurrentKernel("gaussian", unit_norm=False), Z, 0.031738877448),
    (Embedded(S2, tanh_of_A()), R, 0.141451172156),
    (Embedded(S2, tanh_of_A(), repeat=True), rows((1, 0, -1), (0, 1, 1)), -0.727183644278),
]  # fmt: skip


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("kernel", "reference", "value"), EXAMPLES)
def test_the_worked_examples(kernel, reference, value, fused):
    net = kernel.network(2, 1, reference=len(reference), fused=fused, dtype=torch.float64)
    net.references().copy_(reference)
    padded = torch.cat((X, torch.full((2, 2), torch.nan)))[None]
    for result in (
        net.evaluate([X]),
        net.evaluate([X.numpy()]),
        net.evaluate(padded, lengths=[3]),
        net.kernel([X], net.reference_objects()),
    ):
        torch.testing.assert_close(result, rows((value,)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "value"),
    [(S1 + S2, 0.25), (S1 * S2, -0.75), ((S1 + S2).cosine(), 0.017378824984)],
    ids=["sum", "product", "cosine"],
)
def test_the_worked_examples_with_own_references(kernel, value):
    net = kernel.network(2, 1, references="own", dtype=torch.float64)
    for own, reference in zip(net.references(), (R1, R), strict=True):
        own.copy_(reference)
    for result in (net.evaluate([X]), net.kernel([X], net.reference_objects())):
        torch.testing.assert_close(result, rows((value,)), rtol=1e-10, atol=1e-12)


def has_norms(kernel: Kernel, needed: bool = False) -> bool:
    """Return True if a repeated reference would need a norm."""
    needed = needed or isinstance(kernel, (Activated, Cosine))
    inner = kernel.inner_kernels()
    is_repeated = isinstance(kernel, (RecurrentKernel, WeisfeilerLehmanKernel))
    return (needed and is_repeated) or any(has_norms(k, needed) for k in inner)


@pytest.mark.parametrize("i", CASES)
def test_a_network_of_a_random_expression_is_its_kernel(i):
    kernel, objects, own = DRAWN[i]
    torch.manual_seed(i)
    if own and has_norms(kernel):
        with pytest.raises(ArgumentError, match="repeats its references, so they have none"):
            kernel.network(3, 2, references="own")
        own = False
    net = kernel.network(3, 2, references="own" if own else "shared", dtype=torch.float64)
    values, exact = net.evaluate(objects), net.kernel(objects, net.reference_objects())
    torch.testing.assert_close(values, exact, **CLOSE)
    back = net.kernel if kernel.inner_kernels() else without_repeat(net.kernel)
    assert is_same(back, kernel)
    parameters = [p for p in net.parameters() if p.requires_grad]
    of_both = [
        torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
        for total in ((values**2).sum(), (exact**2).sum())
        if total.requires_grad
    ]
    for first, second in zip(*of_both, strict=True) if len(of_both) == 2 else ():
        torch.testing.assert_close(first, second, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("i", [i for i in range(FAST) if not DRAWN[i].own][::6])
def test_the_fused_and_the_exact_network_begin_alike_and_are_equal(i):
    kernel, objects, _ = DRAWN[i]
    nets = []
    for fused in (True, False):
        torch.manual_seed(i)
        nets.append(kernel.network(3, 2, fused=fused, dtype=torch.float64))
        assert not any(part.fused for part in nets[1].parts) if nets[1:] else True
    torch.testing.assert_close(nets[0].evaluate(objects), nets[1].evaluate(objects), **CLOSE)


def test_equal_parts_are_computed_once_and_products_are_shared(monkeypatch):
    calls = []
    run = lambda *args, **options: calls.append((args[0], options)) or string_scan(*args, **options)  # noqa: E731
    monkeypatch.setattr("representer.kernel_network.values.string_scan", run)
    kernel = StringKernel(2) * StringKernel(2, 0.9) + 2 * StringKernel(2) ** 2 + StringKernel(1)
    for scaled in (kernel, kernel + StringKernel(2, normalized=True)):
        calls.clear()
        net = scaled.network(2, 3, dtype=torch.float64)
        value = net.evaluate([X])
        assert [options["decay"].item() for _, options in calls] == [0.5, 0.9]
        assert calls[0][0] is calls[1][0]  # the products
        torch.testing.assert_close(value, scaled([X], net.reference_objects()), **CLOSE)
    calls.clear()
    kernel = StringKernel(2) * StringKernel(2, base=Gaussian()) + StringKernel(1, base=Polynomial())
    net = kernel.network(2, 3, dtype=torch.float64)
    torch.testing.assert_close(net.evaluate([X]), kernel([X], net.reference_objects()), **CLOSE)
    (z, linear), (of_gaussian, gaussian) = calls  # of the same products
    assert linear["input_weight"] is gaussian["input_weight"] is None
    assert z is not of_gaussian
    calls.clear()
    (StringKernel(2) + StringKernel(1)).network(2, 3, dtype=torch.float64).evaluate([X])
    assert [options["input_weight"].shape for _, options in calls] == [(2, 3, 2)]


def test_which_parts_have_a_recurrence():
    kernel = StringKernel(base=Gaussian()).cosine() + Embedded(RecurrentKernel(), tanh_of_A())
    leaves = [leaf for _, leaf in parts_of(kernel)]
    assert [is_fused(leaf) for leaf in leaves] == [True, False]
    assert is_fused(RandomWalkKernel(nonlinear="exponential"))
    assert not is_fused(RandomWalkKernel(nonlinear=Gaussian()))
    assert key_of(StringKernel(base=Gaussian())) == key_of(StringKernel(base=Gaussian()))
    assert key_of(StringKernel(base=Gaussian(2))) != key_of(StringKernel(base=Gaussian()))


PADDED = [
    *((kernel, {}) for kernel in (
        StringKernel(2).cosine() + StringKernel(3, normalized="exact", trailing=False).cosine(),
        (StringKernel(1) * StringKernel(2)).activated(Gaussian()),
        StringKernel(2, base=Gaussian(), combine="add").cosine().activated(InversePolynomial()),
        (0.1 * StringKernel(1) + StringKernel(2).cosine().cosine() ** 2).cosine(),
        DeepStringKernel((1, 2), 0.5, Polynomial(2), base=Gaussian()),
        DeepStringKernel((2, 2), 0.5, Gaussian(), normalized="exact", combine="add").cosine(),
        RecurrentKernel("polynomial", filter_length=2, dilation=2) + StringKernel(1),
        2 * RecurrentKernel("gaussian"), 0.5 * RecurrentKernel("gaussian", unit_norm=False),
        RecurrentKernel("linear", filter_length=2, dilation=2).cosine(),
        RecurrentKernel("linear", static_gates=(0.4, 0.8)).activated(Gaussian()),
        Embedded(StringKernel(2).cosine(), tanh_of_A()), Embedded(StringKernel(2), RKMCIFG(2, 3)),
        Embedded(StringKernel(1), RKMCIFG(2, 3, batch_first=True), repeat=True),
    )),
    (RecurrentKernel("polynomial"), {"reference": 3}), (DeepStringKernel(), {"reference": 4}),
    ((StringKernel(1) + StringKernel(2)).cosine(), {"references": "own"}),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "options"), PADDED)
def test_a_program_computes_the_kernel_of_padded_sequences(kernel, options, monkeypatch):
    torch.manual_seed(0)
    kernel = copy.deepcopy(kernel)
    for module in networks_in(kernel):
        module.double()
    net = kernel.network(2, 3, **options, dtype=torch.float64)
    x, lengths = 0.4 * torch.randn(4, 6, 2, dtype=torch.float64), torch.tensor([6, 1, 0, 4])
    expected = net.kernel([z[:end] for z, end in zip(x, lengths, strict=True)],
                          net.reference_objects())  # fmt: skip
    assert no_program(kernel) == ""
    monkeypatch.setattr(values, "is_traced", lambda x: isinstance(x, TokenBatch))
    monkeypatch.delattr(TokenBatch, "items")  # which needs the lengths as numbers
    torch.testing.assert_close(net.evaluate(x, lengths), expected, **CLOSE)


@pytest.mark.parametrize(("kernel", "reason"), [
    (RecurrentKernel("polynomial").cosine(), "nests q over all steps"),
    (2 * RecurrentKernel(repeat=True), "repeated at every step"),
    (Embedded(StringKernel(), torch.nn.MultiheadAttention(2, 1)), "may read other steps"),
    (StringKernel(2, base=Linear() + Gaussian()).cosine(), "base is a composition"),
    (RKMCIFG(2, 3).kernel + StringKernel(), "LearnedKernel reads the length"),
])  # fmt: skip
def test_a_network_that_has_no_program_states_the_reason(kernel, reason):
    assert reason in no_program(StringKernel(1) + kernel)
