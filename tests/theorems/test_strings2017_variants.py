"""Lei et al. (2017), Tables 4 and 5, footnote 3, section 4 and section 6.1: variants of the module.

Each is compared with the enumeration of all n-grams, or with its recurrence written out by hand.
"""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from small_oracles import sigma
from strings2017_by_hand import (
    CLOSE,
    decays,
    kernel,
    mass,
    ngrams,
    normalized_kernel,
    one_hot,
    printed,
    sizes,
    theorem,
)
from strings2017_layers import draw, layer_of

from representer.nn import StringKernelRNN

TABLE_4 = {
    "a": {}, "b": {"normalized": True}, "c": {"combine": "add", "normalized": True},
}  # fmt: skip
GATES = pytest.mark.parametrize("decay", ["input", "state"])


def as_tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("row", TABLE_4)
@theorem
@given(size=sizes, lam=decays)
def test_table_4_the_recurrences_as_printed(row, size, lam):
    """(a), (b) and (c) for n = 3, and both final activations."""
    x, references = draw(**{**size, "n": 3})
    one, two, three = references.transpose(0, 1)
    lam = lam if row == "a" else min(lam, 0.99)  # 1 is refused, where all terms would be 0
    w = 1.0 if row == "a" else 1 - lam
    c1 = c2 = c3 = x.new_zeros(size["H"])
    last, summed = [], []
    for x_t in x:
        if row == "c":
            c3 = lam * c3 + w * (c2 + three @ x_t)  # from the back: the others are of t - 1
            c2 = lam * c2 + w * (c1 + two @ x_t)
        else:
            c3 = lam * c3 + w * (c2 * (three @ x_t))
            c2 = lam * c2 + w * (c1 * (two @ x_t))
        c1 = lam * c1 + w * (one @ x_t)
        last.append(torch.tanh(c3))
        summed.append(torch.tanh(c1 + c2 + c3))
    options = {"decay": lam, "activation": "tanh", **TABLE_4[row]}
    torch.testing.assert_close(layer_of(references, **options)(x)[0], torch.stack(last), **CLOSE)
    output = layer_of(references, readout="sum", **options)(x)[0]
    torch.testing.assert_close(output, torch.stack(summed), **CLOSE)


@theorem
@given(size=sizes, lam=decays)
def test_table_4_b_is_the_kernel_times_a_power_of_one_minus_the_decay(size, lam):
    """c_j[t] = (1 - lam)^j K_j, which is Table 5 (b) times Z'(x_{1:t}) (1 - lam)^j."""
    x, references = draw(**size)
    lam = min(lam, 0.99)  # 1 is refused, where all terms would be 0
    states = layer_of(references, decay=lam, normalized=True).cell_states(x)
    for t in range(1, len(x) + 1):
        for j in range(1, size["n"] + 1):
            share = (1 - lam) ** j
            plain = [share * kernel(x[:t], w[:j], j, printed(lam)) for w in references]
            torch.testing.assert_close(states[t - 1, j - 1], as_tensor(plain), **CLOSE)
            z = mass(t, j, printed(lam))
            of_table = [share * z * normalized_kernel(x[:t], w[:j], j, printed(lam))
                        for w in references]  # fmt: skip
            torch.testing.assert_close(states[t - 1, j - 1], as_tensor(of_table), **CLOSE)


FORMS = [
    (combine, normalized)
    for combine in ("multiply", "add", "add_exact")
    for normalized in (False, True, "exact")
]


@pytest.mark.parametrize(("combine", "normalized"), FORMS)
@pytest.mark.parametrize("decay", [0.6, "learned", "input", "state"])
def test_theorem_2_any_combination_of_the_states_with_weights_from_0(combine, normalized, decay):
    """h[t] = sigma(sum_j alpha_j c_j[t]), learned alpha_j; of every form, and in any chunks."""
    x, references = draw(6, 3, 3, 2, seed=4)
    options = {"combine": combine, "normalized": normalized, "decay": decay}
    layer = layer_of(references, readout="weighted", activation="tanh", **options)
    assert layer.readout_weights().tolist() == [[1.0, 1.0]] * 3  # as readout="sum" at first
    layer.readout_l0.copy_(torch.tensor([[-3.0, 1.0], [0.5, -60.0], [2.0, 0.1]]).double())
    alpha = torch.log1p(torch.exp(layer.readout_l0))
    torch.testing.assert_close(layer.readout_weights(), alpha.clamp(min=1e-12), **CLOSE)
    output, state = layer(x)
    expected = torch.tanh((alpha * layer.cell_states(x)).sum(1))
    torch.testing.assert_close(output, expected, **CLOSE)
    first, carried = layer(x[:2])
    second, last = layer(x[2:], carried)
    torch.testing.assert_close(torch.cat((first, second)), output, **CLOSE)
    torch.testing.assert_close(tuple(last), tuple(state), **CLOSE)
    if normalized is False and combine == "multiply" and decay == 0.6:
        kernels = [[kernel(x, w[:j], j, printed(0.6)) for w in references] for j in (1, 2, 3)]
        torch.testing.assert_close(output[-1], (alpha * as_tensor(kernels)).sum(0).tanh(), **CLOSE)


def test_theorem_2_a_weighted_readout_computed_by_hand():
    """c_1 = -2.75, c_2 = 1 and 1/4 c_1 + 2 c_2 = 1.3125 for lambda = 1/2."""
    x, w = as_tensor([[1, 2], [0, 1], [-1, 1]]), as_tensor([[1, -1], [2, 1]])
    layer = layer_of(w[None], readout="weighted")
    layer.readout_l0.copy_(torch.log(torch.expm1(as_tensor([[0.25], [2]]))))
    torch.testing.assert_close(layer.cell_states(x)[-1, :, 0], as_tensor([-2.75, 1]), **CLOSE)
    torch.testing.assert_close(layer(x)[0][-1], as_tensor([1.3125]), **CLOSE)


@pytest.mark.parametrize("decay", [0.5, "state"])
def test_lemma_1_the_activation_is_any_function_by_name_or_a_callable(decay):
    """Polynomials are among the sigma of Lemma 1; the last state is the same for each of them."""
    x, references = draw(5, 2, 2, 3, seed=2)
    for activation, function in [
        ("polynomial", lambda s: (s + 1) ** 2 / 4), ("inverse", lambda s: s / (2 - s)),
        ("exponential", lambda s: (s.exp() - 1) / 2), (torch.sin, torch.sin),
        (torch.nn.Softplus(), lambda s: s.exp().log1p()),
    ]:  # fmt: skip
        layer = layer_of(references, decay=decay, activation=activation, highway=False)
        output, state = layer(0.3 * x)
        torch.testing.assert_close(output, function(layer.cell_states(0.3 * x)[:, -1]), **CLOSE)
        torch.testing.assert_close(state.h[0], output[-1], **CLOSE)
        longer = torch.stack((0.3 * x, torch.cat((0.3 * x[:3], x[3:]))), dim=1)
        packed = torch.nn.utils.rnn.pack_padded_sequence(longer, torch.tensor([5, 3]))
        padded, last = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0])[0], layer(packed)[1]
        torch.testing.assert_close(padded[:3, 1], output[:3], **CLOSE)
        torch.testing.assert_close(last.h[0, 1], output[2], **CLOSE)
        assert not padded[3:, 1].any()


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"normalized": "exact"}])
def test_theorem_2_layers_may_have_different_orders(options):
    """n of each layer, as in the orders of kernels.DeepStringKernel."""
    torch.manual_seed(0)
    made = {"decay": 0.5, "dtype": torch.float64, **options}
    layer = StringKernelRNN(3, 2, num_layers=3, order=(2, 1, 3), **made).requires_grad_(False)
    below = x = torch.randn(6, 2, 3, dtype=torch.float64)
    for k, order in enumerate(layer.order):
        assert layer.references(k).shape[1] == order
        single = StringKernelRNN(below.shape[2], 2, order=order, **made)
        weights = {n.replace(f"_l{k}", "_l0"): v for n, v in layer.state_dict().items()
                   if f"_l{k}" in n}  # fmt: skip
        single.load_state_dict(weights)
        below = single(below)[0].detach()
    output, state = layer(x)
    torch.testing.assert_close(output, below, **CLOSE)
    assert state.c.shape[:2] == ((6 if layer.bidirectional else 3), 3)
    if not layer.bidirectional:
        carried = layer(x[:4])[1]
        torch.testing.assert_close(layer(x[4:], carried)[0], output[4:], **CLOSE)
        steps, state = [], None
        for x_t in x:
            out, state = layer.step(x_t, state)
            steps.append(out)
        torch.testing.assert_close(torch.stack(steps), output, **CLOSE)


@pytest.mark.parametrize("add", [False, True])
def test_table_4_b_and_c_approach_table_5_as_the_prefix_grows(add):
    """The difference shrinks like lam^t; at t = 3 it is not small."""
    x, references = draw(60, 2, 2, 2, seed=5)
    combine = "add" if add else "multiply"
    states = layer_of(references, normalized=True, combine=combine).cell_states(x)[:, -1]
    errors = []
    for t in (3, 20, 60):
        exact = [normalized_kernel(x[:t], w, 2, printed(0.5), add=add) for w in references]
        errors.append(float((states[t - 1] - as_tensor(exact)).abs().max()))
    assert errors[0] > 0.05
    assert errors[1] < 1e-3
    assert errors[2] < 1e-12


@pytest.mark.parametrize("normalized", [False, True])
@theorem
@given(size=sizes, lam=decays)
def test_table_4_c_has_the_weights_of_its_own_recursion(normalized, size, lam):
    """W^(k) x_s enters c_n[t] with w^(n-k+1) C(t - s, n - k) lam^(t-s-n+k).

    C counts the steps at which it climbs from c_k to c_n. Table 5's kernel has the mass
    m_{k-1}[s - 1] besides, which the print leaves out.
    """
    x, references = draw(**size)
    lam = min(lam, 0.99) if normalized else lam
    n, w = size["n"], 1 - lam if normalized else 1.0
    layer = layer_of(references, decay=lam, combine="add", normalized=normalized)
    states = layer.cell_states(x)
    for t in range(1, len(x) + 1):
        total = x.new_zeros(size["H"])
        for k in range(1, n + 1):
            for s in range(1, t - (n - k) + 1):
                ways = math.comb(t - s, n - k) * lam ** (t - s - (n - k))
                total = total + w ** (n - k + 1) * ways * (references[:, k - 1] @ x[s - 1])
        torch.testing.assert_close(states[t - 1, -1], total, **CLOSE)


@theorem
@given(size=sizes, lam=decays)
def test_table_5_c_the_mass_completes_the_weights_of_the_additive_recursion(size, lam):
    """In add_exact W^(k) x_s weighs m_{k-1}[s - 1] C(t - s, n - k) lam^(t-s-n+k)."""
    x, references = draw(**size)
    n, t = size["n"], size["T"]
    total = x.new_zeros(size["H"])
    for k in range(1, n + 1):
        for s in range(1, t - (n - k) + 1):
            shorter = mass(s - 1, k - 1, printed(lam)) if k > 1 else 1.0
            ways = math.comb(t - s, n - k) * lam ** (t - s - (n - k))
            total = total + shorter * ways * (references[:, k - 1] @ x[s - 1])
    states = layer_of(references, decay=lam, combine="add_exact").cell_states(x)
    torch.testing.assert_close(states[-1, -1], total, **CLOSE)


@pytest.mark.parametrize("combine", ["multiply", "add_exact"])
@pytest.mark.parametrize("normalized", [False, True, "exact"])
@theorem
@given(size=sizes, lam=decays)
def test_table_5_every_state_is_the_kernel_for_every_t(combine, normalized, size, lam):
    """(b) and (c), with their Z, are what the states with masses hold for every t, j and i."""
    x, references = draw(**size)
    add = combine == "add_exact"
    lam = min(lam, 0.99) if normalized is True else lam
    layer = layer_of(references, decay=lam, combine=combine, normalized=normalized)
    states = layer.cell_states(x)
    of_pair = normalized_kernel if normalized == "exact" else kernel
    for t in range(1, len(x) + 1):
        for j in range(1, size["n"] + 1):
            share = (1 - lam) ** j if normalized is True else 1.0
            values = [share * of_pair(x[:t], w[:j], j, printed(lam), add=add) for w in references]
            torch.testing.assert_close(states[t - 1, j - 1], as_tensor(values), **CLOSE)


@theorem
@given(size=sizes, lam=decays)
def test_table_5_the_masses_are_the_sums_of_the_weights(size, lam):
    """m_j[t] = lam m_j[t-1] + m_{j-1}[t-1], m_0 = 1, is Z'(x_{1:t}) of order j."""
    x, references = draw(**size)
    _, state = layer_of(references, decay=lam, combine="add_exact")(x)
    for j in range(1, size["n"] + 1):
        expected = torch.full((size["H"],), mass(len(x), j, printed(lam)), dtype=torch.float64)
        torch.testing.assert_close(state.m[0, j - 1], expected, **CLOSE)


AA, AB = "aa", "ab"
BY_HAND = {  # lambda = 1/2, c_2[t] of every t
    "additive as printed": (AB, "abab", {"combine": "add"}, [0, 2, 3 / 2, 3]),
    "additive, exact": (AB, "abab", {"combine": "add_exact"}, [0, 2, 3 / 2, 15 / 4]),
    "normalized as printed": (AB, "abab", {"normalized": True}, [0, 1 / 4, 1 / 8, 3 / 8]),
    "normalized, exact": (AB, "abab", {"normalized": "exact"}, [0, 1, 1 / 4, 6 / 11]),
    "a alone, normalized as printed": (
        AA, "a" * 8, {"normalized": True},
        [0, 1 / 4, 1 / 2, 11 / 16, 13 / 16, 57 / 64, 15 / 16, 247 / 256],
    ),
    "a alone, normalized, exact": (AA, "a" * 8, {"normalized": "exact"}, [0, *[1] * 7]),
    "a alone, additive as printed": (AA, "aaaa", {"combine": "add"}, [1, 5 / 2, 15 / 4, 37 / 8]),
    "a alone, additive, exact": (AA, "aaaa", {"combine": "add_exact"}, [0, 2, 4, 11 / 2]),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_table_5_these_states_were_computed_by_hand(case):
    reference, text, options, expected = BY_HAND[case]
    states = layer_of(one_hot(reference)[None], **options).cell_states(one_hot(text))[:, 1, 0]
    torch.testing.assert_close(states, as_tensor([float(v) for v in expected]), rtol=0, atol=1e-15)


@pytest.mark.parametrize("normalized", [False, True])
@theorem
@given(size=sizes)
def test_footnote_3_without_decay_the_additive_network_is_a_convolutional_one(normalized, size):
    """h[t] = sigma(W^(1) x_{t-n+1} + ... + W^(n) x_t) when lam = 0, zeros before the first step."""
    x, references = draw(**size)
    options = {"decay": 0.0, "combine": "add", "normalized": normalized, "activation": "relu"}
    output = layer_of(references, **options)(x)[0]
    padded = F.pad(x.T, (size["n"] - 1, 0))
    convolved = F.conv1d(padded[None], references.transpose(1, 2))[0].T
    torch.testing.assert_close(output, convolved.relu(), **CLOSE)


@theorem
@given(size=sizes)
def test_footnote_3_without_decay_the_multiplicative_network_sees_the_last_ngram_alone(size):
    """c_n[t] is the product of the last n projections, and 0 before there are n."""
    x, references = draw(**size)
    n, states = size["n"], layer_of(references, decay=0.0).cell_states(x)[:, -1]
    for t in range(1, len(x) + 1):
        product = x.new_ones(size["H"])
        for k in range(n):
            product = product * (references[:, k] @ x[t - n + k] if t >= n else 0.0)
        torch.testing.assert_close(states[t - 1], product, **CLOSE)


def gates_by_hand(layer, x):
    """lam_t = sigma(U [x_t, h_{t-1}] + b) of every step, h from the layer's output."""
    weights, output = layer.decay_gate(), layer(x)[0]
    before = torch.cat((torch.zeros_like(output[:1]), output[:-1]))
    a = x @ weights["input"].T + weights["bias"]
    return sigma(a + before @ weights["state"].T) if "state" in weights else sigma(a)


def gated_layer(decay, references, seed, **options):
    """A layer with a decay gate whose weights and biases are all at work."""
    layer = layer_of(references, decay=decay, activation="tanh", **options)
    generator = torch.Generator().manual_seed(seed + 1)
    for weight in layer.decay_gate().values():
        weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return layer


@GATES
@theorem
@given(size=sizes)
def test_section_4_the_weight_of_an_ngram_is_the_product_of_the_gates_it_skips(decay, size):
    """lam_{x,i} is the product of lam_s over the steps s > i_1 that are not in the n-gram."""
    x, references = draw(**size)
    layer = gated_layer(decay, references, size["seed"])
    lam, states = gates_by_hand(layer, x), layer.cell_states(x)
    for t in range(1, len(x) + 1):
        for j in range(1, size["n"] + 1):
            total = x.new_zeros(size["H"])
            for i in ngrams(t, j):
                weight = x.new_ones(size["H"])
                for s in range(i[0] + 1, t + 1):
                    weight = weight * (1.0 if s in i else lam[s - 1])
                for slot, place in enumerate(i):
                    weight = weight * (references[:, slot] @ x[place - 1])
                total = total + weight
            torch.testing.assert_close(states[t - 1, j - 1], total, **CLOSE)
    torch.testing.assert_close(layer(x)[0], states[:, -1].tanh(), **CLOSE)


@GATES
@theorem
@given(size=sizes)
def test_section_4_normalized_every_token_of_an_ngram_brings_one_minus_its_gate(decay, size):
    """With 1 - lam_t before each new term; and the exact form divides by the sum of the weights."""
    x, references = draw(**size)
    printed_layer = gated_layer(decay, references, size["seed"], normalized=True)
    exact_layer = gated_layer(decay, references, size["seed"], normalized="exact")
    for layer in (printed_layer, exact_layer):
        lam, states = gates_by_hand(layer, x), layer.cell_states(x)
        total = mass_of_all = x.new_zeros(size["H"])
        for i in ngrams(len(x), size["n"]):
            weight = x.new_ones(size["H"])
            for s in range(i[0], len(x) + 1):
                of_member = 1 - lam[s - 1] if layer is printed_layer else 1.0
                weight = weight * (of_member if s in i else lam[s - 1])
            mass_of_all = mass_of_all + weight
            for slot, place in enumerate(i):
                weight = weight * (references[:, slot] @ x[place - 1])
            total = total + weight
        if layer is exact_layer and mass_of_all.any():
            total = total / mass_of_all
        torch.testing.assert_close(states[-1, -1], total, **CLOSE)


@theorem
@given(size=sizes)
def test_section_4_a_learned_decay_is_a_constant_of_each_unit(size):
    x, references = draw(**size)
    layer = layer_of(references, decay="learned")
    layer.decay_logit_l0.copy_(torch.linspace(-2, 2, size["H"]))
    lam = layer.decay_gate()
    torch.testing.assert_close(lam, sigma(torch.linspace(-2, 2, size["H"]).double()), **CLOSE)
    states = layer.cell_states(x)
    for i, reference in enumerate(references):
        expected = kernel(x, reference, size["n"], printed(float(lam[i])))
        assert math.isclose(states[-1, -1, i], expected, rel_tol=1e-10, abs_tol=1e-10)


@theorem
@given(size=sizes, decay=st.sampled_from(["input", "state"]))
def test_section_6_1_layers_with_a_highway(size, decay):
    """c = lam c + (1 - lam) (W h^(l-1)), h^(l) = f * c + (1 - f) * h^(l-1), n = 1, three layers."""
    generator = torch.Generator().manual_seed(size["seed"])
    d = size["d"]
    x, references = draw(size["T"], d, 1, d, size["seed"])
    layer = layer_of(references, num_layers=3, decay=decay, normalized=True, highway=True)
    for parameter in layer.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    below = x
    for index in range(3):
        weights, highway = layer.decay_gate(index), layer.highway_gate(index)
        W = layer.references(index)[:, 0]
        h = c = x.new_zeros(d)
        outputs = []
        for x_t in below:
            a = weights["input"] @ x_t + weights["bias"]
            lam = sigma(a + weights["state"] @ h if decay == "state" else a)
            c = lam * c + (1 - lam) * (W @ x_t)
            f = sigma(highway["input"] @ x_t + highway["bias"])
            h = f * c + (1 - f) * x_t
            outputs.append(h)
        below = torch.stack(outputs)
    torch.testing.assert_close(layer(x)[0], below, **CLOSE)


@pytest.mark.parametrize("highway", [False, True])
def test_section_4_dropout_has_one_mask_for_each_unit_and_sequence(highway):
    """lam_t = sigma(U x_t + V (k * h_{t-1}) + b), k constant over time; k * sigma(s) in a highway.

    Of all masks of 0 and 2 that each sequence could have, one gives its outputs at every step.
    """
    x, references = draw(5, 3, 2, 3, seed=8)
    layer = gated_layer("state", references, 8, hidden_dropout=0.5, highway=highway).train()
    gate, rows = layer.decay_gate(), torch.stack([x, x, x, x], dim=1)
    carry = layer.highway_gate() if highway else {}
    masks = [2.0 * as_tensor(bits) for bits in product((0.0, 1.0), repeat=3)]

    def by_hand(k):
        h, (c1, c2), outputs = x.new_zeros(3), x.new_zeros(2, 3), []
        for x_t in x:
            lam = sigma(gate["input"] @ x_t + gate["state"] @ (k * h) + gate["bias"])
            c2 = lam * c2 + c1 * (references[:, 1] @ x_t)
            c1 = lam * c1 + references[:, 0] @ x_t
            h = c2.tanh()
            if highway:
                g = sigma(carry["input"] @ x_t + carry["bias"])
                h = g * k * h + (1 - g) * x_t
            outputs.append(h)
        return torch.stack(outputs)

    candidates, seen = torch.stack([by_hand(k) for k in masks]), set()
    for seed in range(6):
        torch.manual_seed(seed)
        output = layer(rows)[0]
        for b in range(4):
            errors = (candidates - output[:, b]).abs().amax((1, 2))
            assert errors.min() < 1e-10
            seen.add(int(errors.argmin()))
    assert seen - {0, 7}  # masks that drop some units and keep others
    assert len(seen) > 3
    layer.eval()
    torch.testing.assert_close(layer(rows)[0][:, 0], by_hand(torch.ones(3).double()), **CLOSE)


@pytest.mark.parametrize("layers", [1, 2])
def test_section_6_1_variational_dropout_has_one_mask_for_each_feature_and_sequence(layers):
    """The input of each layer is k * x_t with the same k at every step of a sequence."""
    torch.manual_seed(0)
    options = {"order": 1, "decay": 0.0, "activation": None, "dtype": torch.float64}
    layer = StringKernelRNN(3, 3, layers, variational_dropout=0.5, **options)
    with torch.no_grad():
        for k in range(layers):
            layer.references(k).copy_(torch.eye(3)[:, None])  # so that the output is the input
    x, kept = torch.ones(4, 6, 3, dtype=torch.float64), set()
    for seed in range(5):
        torch.manual_seed(seed)
        output = layer(x)[0].detach()
        assert torch.equal(output, output[:1].expand_as(output))
        assert set(output.unique().tolist()) <= {0.0, 2.0**layers}
        kept |= {tuple(row) for row in (output[0] > 0).tolist()}
    assert any(len(set(row)) > 1 for row in kept)
    assert len(kept) > 3
    assert torch.equal(layer.eval()(x)[0].detach(), x)


@pytest.mark.parametrize("normalized", [False, True])
def test_appendix_a_a_linear_additive_memory_is_the_unigram_network(normalized):
    """c[t] = lam_f c[t-1] + lam_i (W x_t) with lam_f = lam_t and lam_i = 1 - lam_t or 1."""
    x, references = draw(7, 3, 1, 4, seed=3)
    layer = gated_layer("state", references, 3, normalized=normalized)
    lam = gates_by_hand(layer, x)
    c = x.new_zeros(4)
    for t, x_t in enumerate(x):
        c = lam[t] * c + (1 - lam[t] if normalized else 1.0) * (references[:, 0] @ x_t)
        torch.testing.assert_close(layer(x)[0][t], c.tanh(), **CLOSE)
