"""A stream computes the steps of its layer, notices changed weights, and keeps a state."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError
from representer.ops import core, use_backend

from .fast_steps import QUICK
from .layers import EVERY_LAYER, INPUT, assert_states_equal, batch, build
from .string_layers import EVERY_STRING_LAYER, build_string, string_batch

TIME = 4
NEEDS_CORE = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)


def assert_stream(layer: Any, x: Tensor, is_packed: bool) -> None:
    """Assert that the outputs and the state of a stream are those of the whole sequence."""
    stream, outputs = layer.stream(x.shape[1]), []
    with torch.no_grad():
        for t, x_t in enumerate(x):
            outputs.append(stream(x_t))
            assert bool(stream._steps) is (is_packed and not core.MISSING), t
        expected, state = layer(x)
    torch.testing.assert_close(torch.stack(outputs), expected)
    assert_states_equal(stream.state, state)


@EVERY_LAYER
@looped("layers", [1, 3])
@looped("size", [1, 3, 9, 64])
def test_a_stream_matches_the_sequence(name: str, layers: int, size: int):
    layer, x = build(name, num_layers=layers), batch(TIME, size)
    assert_stream(layer, x, name in QUICK)
    assert_stream(layer.float(), x.float(), name in QUICK)


@EVERY_STRING_LAYER
@looped("layers", [1, 3])
@looped("size", [1, 3, 9, 64])
def test_a_stream_of_a_string_kernel_matches_the_sequence(name: str, layers: int, size: int):
    layer, x = build_string(name, num_layers=layers), string_batch(TIME, size)
    assert_stream(layer, x, True)
    assert_stream(layer.float(), x.float(), True)


@pytest.mark.parametrize("options", [
    {"bias": False}, {"forget_bias": 2.0}, {"layer_norm": True, "num_layers": 2},
    {"bias": False, "forget_bias": 2.0},
])  # fmt: skip
def test_a_stream_has_the_options_of_its_layer(options: dict[str, Any]):
    assert_stream(build("RKM-CIFG", **options), batch(TIME), True)


@NEEDS_CORE
@pytest.mark.parametrize("isa", core.USABLE)
@pytest.mark.parametrize("sizes", [(1, 1), (5, 17), (33, 70), (64, 64)])
@looped("name", ["RKM-LSTM", "RKM-CIFG", "Linear Kernel w/ o_t", "Linear Kernel", "RAN", "string"])
def test_any_size_on_any_instruction_set(isa: str, sizes: tuple[int, int], name: str):
    x = torch.randn(TIME, 7, sizes[0], dtype=torch.float64)
    if name == "string":
        layer = nn.StringKernelRNN(*sizes, order=3, decay="state", dtype=torch.float64)
    else:
        layer = ({**nn.TABLE1, "RAN": nn.RAN}[name])(*sizes, dtype=torch.float64)
    with core.instruction_set(isa):
        assert_stream(layer, x, True)
        stream = layer.float().stream(7)
        found = torch.stack([stream(x_t) for x_t in x.float()])
        torch.testing.assert_close(found, layer(x.float())[0].detach())


CHANGES: dict[str, Callable[[Any], Any]] = {
    "set in place": lambda layer: layer.weight_hh_l0.detach().mul_(2.0),
    "an optimizer": lambda layer: (
        setattr(layer.weight_ih_l0, "grad", torch.ones_like(layer.weight_ih_l0)),
        torch.optim.SGD(layer.parameters(), lr=0.1).step(),
    ),
    "loaded": lambda layer: layer.load_state_dict(
        {name: 2 * value for name, value in layer.state_dict().items()}
    ),
    "replaced": lambda layer: setattr(
        layer, "bias_l0", torch.nn.Parameter(layer.bias_l0.detach() + 1)
    ),
    "moved": lambda layer: setattr(layer.weight_ih_l0, "data", layer.weight_ih_l0.data + 1),
    "not contiguous": lambda layer: setattr(
        layer.weight_hh_l0, "data", layer.weight_hh_l0.data.T.contiguous().T
    ),
    "reset": lambda layer: layer.reset_parameters(),
    "dropout of inputs": lambda layer: setattr(layer.train(), "variational_dropout", 0.0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", [build, build_string])
def test_changed_weights_are_used_at_the_next_step(change: str, make: Callable[[str], Any]):
    layer = make("RKM-LSTM" if make is build else "state gate")
    x = torch.randn(TIME, 3, layer.input_size, dtype=torch.float64)
    stream = layer.stream(3)
    stream(x[0])
    state = stream.state
    CHANGES[change](layer)
    expected, state = layer.step(x[1], state)
    torch.testing.assert_close(stream(x[1]), expected.detach())
    torch.testing.assert_close(stream(x[2]), layer.step(x[2], state)[0].detach())


def test_a_layer_in_another_dtype_continues_with_the_converted_state():
    layer, x = build("RKM-LSTM"), batch(TIME)
    stream = layer.stream(3)
    stream(x[0])
    state = stream.state
    layer.float()
    expected, _ = layer.step(x[1].float(), nn.RecurrentState(state.h.float(), state.c.float()))
    torch.testing.assert_close(stream(x[1].float()), expected.detach())


def test_writing_through_data_needs_a_refresh():
    layer, x = build("RKM-LSTM"), batch(TIME)
    stream = layer.stream(3)
    stream(x[0])
    state = stream.state
    layer.weight_hh_l0.data.mul_(2.0)
    stream.refresh()
    torch.testing.assert_close(stream(x[1]), layer.step(x[1], state)[0].detach())


LAYERS_WITH_STATES: dict[str, Callable[[], Any]] = {
    "RKM-LSTM": lambda: build("RKM-LSTM", num_layers=2),
    "a window": lambda: build("RKM-LSTM", filter_length=3),
    "string": lambda: build_string("exact", num_layers=2),
    "KBRN": lambda: nn.KBRN(INPUT, 4, dtype=torch.float64).eval(),
}


@pytest.mark.parametrize("name", LAYERS_WITH_STATES)
def test_one_sequence_starts_again_and_the_others_continue(name: str):
    layer = LAYERS_WITH_STATES[name]()
    x = torch.randn(TIME, 3, layer.input_size, dtype=torch.float64)
    stream, apart = layer.stream(3), [layer.stream() for _ in range(3)]
    for t, x_t in enumerate(x):
        if t == 2:
            stream.reset(1)
            apart[1] = layer.stream()
        found = stream(x_t)
        for b in range(3):
            torch.testing.assert_close(found[b], apart[b](x_t[b : b + 1])[0])
    stream.reset()
    torch.testing.assert_close(stream(x[0]), layer.stream(3)(x[0]))
    for x_t in x:
        stream(x_t)
    stream.reset([0, 2])
    assert (stream.state.h[:, [0, 2]] == 0).all()
    assert (stream.state.h[:, 1] != 0).any()


@pytest.mark.parametrize("name", LAYERS_WITH_STATES)
def test_a_state_can_be_read_and_set_and_is_a_copy(name: str):
    layer = LAYERS_WITH_STATES[name]()
    x = torch.randn(TIME, 3, layer.input_size, dtype=torch.float64)
    stream = layer.stream(3)
    assert_states_equal(stream.state, layer(x[:1])[1]._replace() and layer.stream(3).state)
    stream(x[0])
    state = stream.state
    first = stream(x[1])
    assert_states_equal(state, layer(x[:1])[1])
    stream.state = state
    torch.testing.assert_close(stream(x[1]), first)
    other = layer.stream(3)
    other.state = state
    torch.testing.assert_close(other(x[1]), first)
    stream.state = None
    torch.testing.assert_close(stream(x[0]), layer(x[:1])[0][0].detach())


def test_outputs_are_tensors_of_their_own():
    layer, x = build("RKM-LSTM"), batch(TIME)
    stream = layer.stream(3)
    first = stream(x[0])
    kept = first.clone()
    stream(x[1])
    assert torch.equal(first, kept)


def test_invalid_layers_inputs_and_states_are_rejected():
    with pytest.raises(ArgumentError, match=r"bidirectional is True; expected False for stream"):
        build("RKM-LSTM", bidirectional=True).stream()
    with pytest.raises(ArgumentError, match="stride"):
        build("CNN", filter_length=2, stride=2).stream()
    with pytest.raises(ArgumentError, match="batch_size"):
        build("RKM-LSTM").stream(0)
    stream, x = build("RKM-LSTM").stream(3), batch(TIME)
    for used_before in (False, True):
        if used_before:
            stream(x[0])
        with pytest.raises(KindError, match="requires a gradient"):
            stream(x[0].clone().requires_grad_())
        with pytest.raises(ShapeError, match=r"expected \(3, 3\)"):
            stream(x[0, :2])
        with pytest.raises(KindError):
            stream(x[0].float())
        with pytest.raises(KindError, match="a tensor"):
            stream(x[0].tolist())  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="0 to 2"):
            stream.reset(3)
        with pytest.raises(ShapeError):
            stream.state = layer_state(2)


def layer_state(size: int) -> Any:
    return build("RKM-LSTM")(batch(1, size))[1].detach()


def test_hooks_run_and_a_selected_backend_is_used():
    layer, x = build("RKM-LSTM"), batch(TIME)
    stream, calls = layer.stream(3), []
    stream(x[0])
    state = stream.state
    handle = layer.register_forward_hook(lambda *_: calls.append(1))
    torch.testing.assert_close(stream(x[1]), layer.step(x[1], state)[0].detach())
    assert len(calls) == 2
    handle.remove()
    with use_backend("reference"):
        stream(x[2])
        assert not stream._steps
    torch.testing.assert_close(stream(x[3]), layer(x)[0][3].detach())


def test_a_stream_made_in_inference_mode_is_usable_outside():
    layer, x = build("RKM-LSTM"), batch(TIME)
    with torch.inference_mode():
        stream = layer.stream(3)
        stream(x[0])
    whole, begun = layer(x)[0][1], layer(x[1:])[0][0]
    stream.reset(0)
    expected = torch.cat((begun[:1], whole[1:])).detach()
    torch.testing.assert_close(stream(x[1]), expected)


@pytest.mark.parametrize("make", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
@pytest.mark.parametrize("name", ["RKM-LSTM", "string"])
def test_a_copy_continues_on_its_own(make: Callable[[Any], Any], name: str):
    layer = LAYERS_WITH_STATES[name]()
    x = torch.randn(TIME, 3, layer.input_size, dtype=torch.float64)
    stream = layer.stream(3)
    stream(x[0])
    other = make(stream)
    for x_t in x[1:]:
        torch.testing.assert_close(other(x_t), stream(x_t), rtol=0, atol=0)
