"""The recurrent network of learned activations: its equation, statistics and errors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from representer import nn, ops
from representer.errors import ArgumentError, KindError, ShapeError

from ..all_layers import KBRN_LAYERS
from ..all_layers import build_kbrn as build
from ..layers import BATCH, HIDDEN, INPUT, TIME

EVERY = pytest.mark.parametrize("name", KBRN_LAYERS)


def batch(time: int = TIME, size: int = BATCH) -> Tensor:
    return torch.randn(time, size, INPUT, dtype=torch.float64)


def by_hand(layer: nn.KBRN, x: Tensor) -> Tensor:
    """Run a layer in training on sequences of one length."""
    part, h, outputs = layer.direction(0), x.new_zeros(x.shape[1], HIDDEN), []
    for x_t in x:
        a = x_t @ part.input_weight.T + h @ part.weight.T + part.bias
        if part.norm is not None:
            deviation = (a.var(0, unbiased=False) + layer.eps).sqrt()
            a = part.norm.weight * (a - a.mean(0)) / deviation + part.norm.bias
        h = part.activation(a)
        outputs.append(h)
    return torch.stack(outputs)


@pytest.mark.parametrize("features", [1, 64])
def test_an_orthogonal_start_is_drawn_again_on_reset(features: int):
    torch.manual_seed(0)
    layer = nn.KBRN(features, 40, 2, bidirectional=True, start="orthogonal", dtype=torch.float64)
    for suffix in layer.suffixes:
        weight = layer.get_parameter(f"weight_hh{suffix}")
        before = weight.detach().clone()
        layer.reset_parameters()
        assert not torch.allclose(weight, before)
        torch.testing.assert_close(weight @ weight.T, torch.eye(40).double())
        # W x of x of variance 1: the deviation is that of 0.3, cut at two: 0.264
        of_sums = layer.get_parameter(f"weight_ih{suffix}").square().sum(1).mean().sqrt()
        assert of_sums.item() == pytest.approx(0.264, rel=0.2)  # of 40 units or more


def test_an_orthogonal_start_preserves_the_first_step_of_wide_inputs():
    """With the normal start and 64 features, its influence is below 1e-9."""
    shares = {}
    for start in ("normal", "orthogonal"):
        torch.manual_seed(0)
        layer = nn.KBRN(64, 64, start=start, dtype=torch.float64)
        x = torch.randn(30, 16, 64, dtype=torch.float64, requires_grad=True)
        layer(x)[0][-1].square().sum().backward()
        shares[start] = (x.grad[0].norm() / x.grad[-1].norm()).item()
    assert shares["normal"] < 1e-3
    assert shares["orthogonal"] > 0.1


def test_an_orthogonal_start_supports_half_precision():
    part = nn.KBRN(3, 4, start="orthogonal", dtype=torch.bfloat16).direction(0)
    product = (part.weight @ part.weight.T).float()
    torch.testing.assert_close(product, torch.eye(4), rtol=0, atol=0.03)  # bfloat16 has 8 bits


@EVERY
def test_the_layer_matches_its_equation_in_training(name: str):
    layer, x = build(name).train(), batch()
    output, state = layer(x)
    expected = by_hand(layer, x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(state.h[0], expected[-1])
    wanted = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
    found = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    torch.testing.assert_close(found, wanted)


def test_running_statistics_are_means_at_first_and_moving_averages_later():
    torch.manual_seed(0)
    layer = nn.KBRN(INPUT, HIDDEN, momentum=0.25, dtype=torch.float64)
    norm, seen = layer.step_norm_l0, []
    for count in range(1, 8):
        x = batch(1)
        layer(x)
        a = torch.nn.functional.linear(x[0], layer.weight_ih_l0, layer.bias_l0)
        seen.append(a.mean(0))
        if count <= 4:
            torch.testing.assert_close(norm.running[0, 0], torch.stack(seen).mean(0))
    mean = torch.stack(seen[:4]).mean(0)
    for fresh in seen[4:]:
        mean = 0.75 * mean + 0.25 * fresh
    torch.testing.assert_close(norm.running[0, 0], mean)
    assert norm.batches.tolist()[:2] == [7, 0]


def test_steps_beyond_those_of_training_use_the_last_statistics():
    layer = build("normalized")
    norm = layer.step_norm_l0
    with torch.no_grad():
        norm.running[:, TIME:] = float("nan")  # must not be read
    longer = layer(batch(TIME + 5))[0]
    assert longer.isfinite().all()
    by_rows = norm.rows(torch.zeros(1, dtype=torch.int64), TIME + 5)[:, :, 0]
    assert all(torch.equal(by_rows[:, t], norm.running[:, TIME - 1]) for t in range(TIME, TIME + 5))


def test_each_step_has_its_own_statistics_in_evaluation():
    layer, x = build("normalized"), batch()
    expected = layer(x)[0]
    with torch.no_grad():
        layer.step_norm_l0.running[0, 3] += 1
    changed = layer(x)[0]
    assert torch.equal(changed[:3], expected[:3])
    assert not torch.isclose(changed[3], expected[3]).any(1).all()


def test_steps_beyond_max_steps_share_the_last_row():
    torch.manual_seed(0)
    layer = nn.KBRN(INPUT, HIDDEN, max_steps=3, dtype=torch.float64)
    layer(batch())
    norm = layer.step_norm_l0
    assert norm.running.shape == (2, 3, HIDDEN)
    assert norm.batches.tolist() == [1, 1, 1]
    whole = nn.KBRN(INPUT, HIDDEN, dtype=torch.float64)
    whole.load_state_dict(layer.state_dict() | {
        "step_norm_l0.running": whole.step_norm_l0.running,
        "step_norm_l0.batches": whole.step_norm_l0.batches,
    })  # fmt: skip
    torch.manual_seed(0)
    nn.KBRN(INPUT, HIDDEN, dtype=torch.float64)
    whole(batch())
    pooled = whole.step_norm_l0.running[:, 2:TIME].mean(1)
    torch.testing.assert_close(norm.running[:, 2], pooled)


def test_batch_statistics_can_be_used_in_evaluation():
    layer, x = build("batch"), batch()
    torch.testing.assert_close(layer(x)[0], by_hand(layer, x))
    before = copy.deepcopy(layer.state_dict())
    layer(batch())
    assert all(
        torch.equal(a, b) for a, b in zip(layer.state_dict().values(), before.values(), strict=True)
    )


def test_statistics_of_a_packed_batch_are_over_the_sequences_with_the_step():
    torch.manual_seed(0)
    layer = build("normalized").train()
    norm, sequences = layer.step_norm_l0, [batch(length, 1)[:, 0] for length in (4, 4, 2)]
    running = norm.running.clone()
    padded, _ = pad_packed_sequence(layer(pack_sequence(sequences))[0])
    expected = by_hand(layer, torch.stack([s[:2] for s in sequences], dim=1))
    torch.testing.assert_close(padded[:2], expected)
    tail = by_hand_from(layer, torch.stack([s[2:] for s in sequences[:2]], dim=1), expected[-1, :2])
    torch.testing.assert_close(padded[2:, :2], tail)
    changed = (norm.running != running).flatten(2).any(2).any(0)
    assert changed.tolist()[:TIME] == [True] * 4 + [False] * 2


def by_hand_from(layer: nn.KBRN, x: Tensor, h: Tensor) -> Tensor:
    """Continue the normalized layer from h."""
    part, outputs = layer.direction(0), []
    for x_t in x:
        a = x_t @ part.input_weight.T + h @ part.weight.T + part.bias
        a = (a - a.mean(0)) / (a.var(0, unbiased=False) + layer.eps).sqrt()
        h = part.activation(part.norm.weight * a + part.norm.bias)
        outputs.append(h)
    return torch.stack(outputs)


def test_a_step_of_a_single_sequence_uses_the_running_statistics():
    layer = build("normalized").train()
    sequences = [batch(4, 1)[:, 0], batch(1, 1)[:, 0]]
    layer.step_norm_l0.momentum = 0.0
    running = layer.step_norm_l0.running.clone()
    packed, state = layer(pack_sequence(sequences))
    padded, _ = pad_packed_sequence(packed)
    assert torch.equal(running[:, 1:], layer.step_norm_l0.running[:, 1:])
    before = nn.KBRNState(padded[0, :1][None], torch.ones(1, 1, dtype=torch.int64))
    after = layer.eval()(sequences[0][1:, None], before)[0]
    torch.testing.assert_close(padded[1:, 0], after[:, 0])
    assert state.steps.tolist() == [[4, 1]]


def test_the_state_counts_the_steps():
    layer, x = build("normalized"), batch()
    assert layer(x, layer(x)[1])[1].steps.tolist() == [[2 * TIME] * BATCH]


def test_the_whole_sequence_is_one_call_of_one_operator():
    (choice,) = ops.explain_backend(build("normalized"), batch())
    assert choice.op == "kbrn_scan"


def test_coefficients_are_penalized_and_parameters_of_activations_a_group_of_their_own():
    layer = nn.KBRN(INPUT, HIDDEN, num_centers=20)
    rest, learned = nn.activation_groups(layer)
    assert {tuple(p.shape) for p in learned["params"]} == {(HIDDEN, 20)}
    assert len(rest["params"]) + len(learned["params"]) == len(list(layer.parameters()))
    torch.testing.assert_close(layer.penalty(), layer.activation().coefficients.abs().sum())
    torch.testing.assert_close(nn.activation_penalty(layer), layer.penalty())


@pytest.mark.parametrize(("options", "message"), [
    ({"num_centers": 0}, "num_centers is 0"),
    ({"limits": (2.0, -2.0)}, r"limits is \(2.0, -2.0\); expected two finite numbers"),
    ({"green": "spline"}, "green is 'spline'"), ({"init": "sinus"}, "init is 'sinus'"),
    ({"eval_statistics": "none"}, "eval_statistics is 'none'; expected 'running' or 'batch'"),
    ({"start": "zeros"}, "start is 'zeros'; expected 'normal' or 'orthogonal'"),
    ({"momentum": 2.0}, "momentum is 2.0"), ({"eps": 0.0}, "eps is 0.0"),
    ({"max_steps": 0}, "max_steps is 0"), ({"hidden_size": 0}, "hidden_size is 0"),
])  # fmt: skip
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ArgumentError, match=message):
        nn.KBRN(**{"input_size": INPUT, "hidden_size": HIDDEN, **options})


def test_a_batch_of_one_cannot_be_normalized():
    layer = nn.KBRN(INPUT, HIDDEN)
    for run in (lambda x: layer(x[:, None]), layer):  # batched and not
        with pytest.raises(ArgumentError, match=r"batch is 1; expected 2 or more .* eval\(\)"):
            run(torch.zeros(TIME, INPUT))
    layer.eval()(torch.zeros(TIME, INPUT))
    authors = nn.KBRN(INPUT, HIDDEN, eval_statistics="batch").eval()
    with pytest.raises(ArgumentError, match="batch is 1"):
        authors(torch.zeros(TIME, 1, INPUT))
    nn.KBRN(INPUT, HIDDEN, normalize=False)(torch.zeros(TIME, INPUT))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_centers_that_are_not_finite_are_rejected(value: float):
    layer = nn.KBRN(INPUT, HIDDEN).eval()
    with torch.no_grad():
        layer.activation().centers[1, 2] = value
    with pytest.raises(ArgumentError, match="centers is 'not finite'; expected finite numbers"):
        layer(torch.zeros(TIME, 2, INPUT))


def test_invalid_inputs_and_states_are_rejected():
    layer, x = nn.KBRN(INPUT, HIDDEN).eval(), torch.zeros(TIME, BATCH, INPUT)
    state = layer(x)[1]
    with pytest.raises(KindError, match=r"one tensor .* KBRNState\(h \(1, 3, 4\), steps \(1, 3\)"):
        layer(x, state.h)
    with pytest.raises(ShapeError, match=r"state.steps has shape \(1, 2\); expected \(1, 3\)"):
        layer(x, state._replace(steps=state.steps[:, :2]))
    with pytest.raises(KindError, match=r"state.steps is torch.float32"):
        layer(x, state._replace(steps=state.steps.float()))
    with pytest.raises(KindError, match=r"state.steps is int"):
        layer(x, state._replace(steps=3))
    with pytest.raises(ShapeError, match=r"state.h has shape"):
        layer(x, state._replace(h=state.h[:, :2]))
    with pytest.raises(ArgumentError, match="layer is 1; expected 0 to 0"):
        layer.activation(1)


def test_a_state_is_not_finite_in_float16_only_after_it_leaves_its_range():
    torch.manual_seed(0)
    x, largest = torch.randn(60, 2, 3, dtype=torch.float64), torch.finfo(torch.float16).max
    for options in ({}, {"normalize": False}, {"normalize": False, "init": "random"}):
        layer = nn.KBRN(3, 16, dtype=torch.float64, **options).eval()
        exact = layer(x)[0].abs().amax(dim=(1, 2))
        fits = int((exact < largest / 2).cumprod(0).sum())
        assert fits == len(x) if "init" not in options else 0 < fits < len(x)
        assert layer.half()(x.half())[0][:fits].isfinite().all()
