"""The linear kernel with static gates."""

from __future__ import annotations

import torch

from representer.nn import LinearKernelRNN

from ..layers import HIDDEN, INPUT, batch, build


def _impulse(steps: int) -> torch.Tensor:
    x = torch.zeros(steps, 1, INPUT, dtype=torch.float64)
    x[0] = 1
    return x


def test_without_feedback_the_weight_of_an_input_decays_geometrically():
    """L19 (9): the input of N steps ago has weight sigma_i^2 sigma_f^{2N}."""
    layer = LinearKernelRNN(
        INPUT,
        HIDDEN,
        output_gate=False,
        feedback=False,
        static_gates=(0.3, 0.8),
        output_nonlinearity="identity",
        dtype=torch.float64,
    )
    output, state = layer(_impulse(6))
    written = 0.3 * layer.filters()["candidate"][..., 0].sum(1)
    expected = torch.stack([written * 0.8**age for age in range(6)])
    torch.testing.assert_close(output[:, 0], expected)
    torch.testing.assert_close(state.c[0, 0], expected[-1])
    assert layer.recurrent() == {}


def test_the_elementwise_recurrence_and_the_general_one_agree():
    quick = build("Linear Kernel, no feedback")
    general = build("Linear Kernel, no feedback", zoneout=1e-30)  # which uses the general path
    general.load_state_dict(quick.state_dict())
    x = batch(40)
    torch.testing.assert_close(general(x)[0], quick(x)[0])
    torch.testing.assert_close(general(x)[1].c, quick(x)[1].c)


def test_without_an_output_gate_the_output_is_tanh_of_the_cell():
    output, state = build("Linear Kernel")(batch())
    torch.testing.assert_close(output[-1], state.c[0].tanh())


def test_the_output_gate_is_the_default_and_has_the_only_bias():
    assert list(LinearKernelRNN(3, 4).biases()) == ["output"]
    assert LinearKernelRNN(3, 4, output_gate=False).biases() == {}


def test_learned_static_gates_are_parameters_and_fixed_ones_are_not():
    fixed, learned = (LinearKernelRNN(3, 4, learn_static_gates=flag) for flag in (False, True))
    more = set(dict(learned.named_parameters())) - set(dict(fixed.named_parameters()))
    assert more == {"static_gates_l0.input_logit", "static_gates_l0.forget_logit"}
