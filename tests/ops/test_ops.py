"""Every backend of every operator matches ``functional``. Generated from ``OPS``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ops.samples import Sample, samples_of
from ops.trials import define, few_samples, gradients, make
from representer.ops import Op

from .cases import (
    EVERY_OP,
    SMALL,
    TOLERANCE,
    RecordedCalls,
    all_samples,
    batch_axis,
    call,
    every,
    ragged_samples,
    sequence_samples,
    strided,
)

DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def assert_near(actual: Tensor, expected: Tensor, share: float, what: str) -> None:
    """Assert that the largest difference is a small share of the largest entry."""
    assert actual.shape == expected.shape, what
    difference = (actual.double() - expected).abs().max().item()
    largest = expected.abs().max().item()
    least = 1e-3 if expected.numel() > 1 else SMALL
    assert difference <= share * max(largest, least), f"{what}: off by {difference} of {largest}"


def test_uninitialized_memory_is_poisoned_in_tests():
    assert torch.empty(9).isnan().all()
    assert torch.ones(9).new_empty(9).isnan().all()


@every(all_samples)
@DEVICES
def test_values_and_gradients_equal_the_definition(
    op: Op, backend: str, sample: Sample, device: str
):
    """The core is one template, so that few samples show whether its single precision is right."""
    is_one_of_few = sample.name in {few.name for few in few_samples(op)}
    for dtype in TOLERANCE if is_one_of_few else [torch.float64]:
        _match_the_definition(op, backend, sample, dtype, device)


def _match_the_definition(
    op: Op, backend: str, sample: Sample, dtype: torch.dtype, device: str
) -> None:
    tensors = make(sample, dtype, device)
    with RecordedCalls() as calls:
        results = call(op, backend, sample, tensors)
        found = gradients(results, tensors)
    for (operator, _), returned in zip(calls.made, calls.results, strict=True):
        for i, tensor in enumerate(returned):  # `torch.empty` returns NaN in the tests
            assert not tensor.isnan().any(), f"{operator.name()}, result {i} is uninitialized"
    exact = {  # the same numbers in float64
        name: tensor.detach().double().requires_grad_(tensor.requires_grad)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in tensors.items()
    }
    expected = define(op, sample, exact)
    for i, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        assert (result.dtype, result.device.type) == (dtype, device)
        assert_near(result, wanted, TOLERANCE[dtype], f"result {i}")
    wanted_gradients = gradients(expected, exact)
    for name, gradient in found.items():
        assert (gradient.dtype, gradient.device.type) == (dtype, device)
        assert_near(gradient, wanted_gradients[name], TOLERANCE[dtype], f"gradient of {name}")


@every(few_samples)
def test_gradients_match_numerical_gradients(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)

    def of(*values: Tensor) -> tuple[Tensor, ...]:
        return call(op, backend, sample, dict(zip(tensors, values, strict=True)))

    operands = tuple(tensors.values())
    assert torch.autograd.gradcheck(of, operands, fast_mode=True, check_undefined_grad=False)


def _permuted(tensor: Tensor) -> Tensor:
    axes = tuple(reversed(range(tensor.dim())))
    return tensor.permute(axes).contiguous().permute(axes)


def _expanded(tensor: Tensor) -> Tensor:
    return tensor[..., :1].expand(tensor.shape) if tensor.dim() > 1 else tensor


@every(few_samples)
def test_results_do_not_depend_on_the_memory_layout(op: Op, backend: str, sample: Sample):
    """Each sample in one layout; the samples of an op are in all of them."""
    layouts = (_permuted, strided, _expanded)
    position = [few.name for few in few_samples(op)].index(sample.name)
    chosen = layouts if len(few_samples(op)) < 3 else layouts[position % 3 :][:1]
    for layout in chosen:
        _are_those_of_contiguous_operands(op, backend, sample, layout)


def _are_those_of_contiguous_operands(
    op: Op, backend: str, sample: Sample, layout: Callable[[Tensor], Tensor]
) -> None:
    found = []
    drawn = {name: t.detach() for name, t in make(sample, torch.float64).items()}
    placed = {name: layout(tensor) for name, tensor in drawn.items()}
    if op.name == "tree_scan" and layout is _expanded:  # equal edges are those of no tree
        placed["edge_index"] = drawn["edge_index"]
    written = {name: tensor.clone(memory_format=torch.contiguous_format)
               for name, tensor in placed.items()}  # fmt: skip
    for tensors in (placed, written):
        for name, tensor in tensors.items():
            tensor.requires_grad_(tensor.is_floating_point() and name not in sample.constants)
        results = call(op, backend, sample, tensors)
        marked = [tensor for tensor in tensors.values() if tensor.requires_grad]
        total = sum((i + 1) * r.sum() for i, r in enumerate(results))  # gradients of stride 0
        of_sum = torch.autograd.grad(total, marked, retain_graph=True, materialize_grads=True)
        found.append((results, gradients(results, tensors), of_sum))
    torch.testing.assert_close(found[0], found[1])


@every(ragged_samples)
def test_results_do_not_depend_on_the_padding(op: Op, backend: str, sample: Sample):
    clean = make(sample, torch.float64)
    time, batch = next(iter(clean.values())).shape[:2]
    padded = torch.arange(time)[:, None] >= clean["lengths"]
    expected = call(op, backend, sample, clean)
    of_clean = gradients(expected, clean)
    for garbage in (float("nan"), 1e300):  # an infinity times 0 is NaN, too
        dirty = {name: tensor.detach().clone() for name, tensor in clean.items()}
        for name, tensor in dirty.items():
            if tensor.shape[:2] == (time, batch):
                tensor[padded] = garbage
            elif tensor.shape[1:3] == (time, batch):
                tensor[:, padded] = garbage
            tensor.requires_grad_(clean[name].requires_grad)
        results = call(op, backend, sample, dirty)
        assert all(torch.equal(r, e) for r, e in zip(results, expected, strict=True))
        assert not results[0][padded].any()
        for name, gradient in gradients(results, dirty).items():
            assert torch.equal(gradient, of_clean[name]), name
            if gradient.shape[:2] == (time, batch):
                assert not gradient[padded].any(), name


@every(ragged_samples)
def test_gradients_that_reach_the_padding_are_ignored(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    results = call(op, backend, sample, tensors)
    padded = torch.arange(len(results[0]))[:, None] >= tensors["lengths"]
    marked = [tensor for tensor in tensors.values() if tensor.requires_grad]
    upstream, found = torch.ones_like(results[0]), []
    for garbage in (0.0, float("nan")):
        upstream[padded] = garbage
        found.append(
            torch.autograd.grad(
                results[0], marked, upstream, retain_graph=True, materialize_grads=True
            )
        )
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@every(sequence_samples)
def test_a_sequence_of_length_0_keeps_its_state(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    time, batch = next(iter(tensors.values())).shape[:2]
    tensors["lengths"] = torch.tensor([0, time, 1, time], dtype=torch.int32)[:batch]
    results, expected = call(op, backend, sample, tensors), define(op, sample, tensors)
    assert not results[0][:, 0].any()
    states = [tensors[name] for name in ("h0", "c0") if name in tensors]
    for result, state in zip(results[1:], states, strict=True):
        assert torch.equal(result[0], state[0])
    torch.testing.assert_close(results, expected)
    torch.testing.assert_close(gradients(results, tensors), gradients(expected, tensors))


@every(sequence_samples)
def test_an_empty_batch_has_empty_results_and_gradients_of_0(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    for name, tensor in tensors.items():
        axis = batch_axis(op, name)
        if axis is not None and axis < tensor.dim():
            empty = tensor.detach().narrow(axis, 0, 0)
            tensors[name] = empty.requires_grad_(tensor.requires_grad)
    results = call(op, backend, sample, tensors)
    assert [r.shape for r in results] == [r.shape for r in define(op, sample, tensors)]
    for name, gradient in gradients(results, tensors).items():
        assert gradient.shape == tensors[name].shape
        assert not gradient.any(), name


@every(sequence_samples)
def test_the_error_for_a_length_out_of_range_names_it(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    time, batch = next(iter(tensors.values())).shape[:2]
    for length in (-1, 99):
        tensors["lengths"] = torch.full((batch,), time)
        tensors["lengths"][-1] = length
        message = rf"lengths\[{batch - 1}\] is {length}; expected 0 to {time}"
        with pytest.raises(ValueError, match=message):
            call(op, backend, sample, tensors)


@every(few_samples)
def test_inputs_are_not_modified_and_two_backward_passes_agree(
    op: Op, backend: str, sample: Sample
):
    tensors = make(sample, torch.float64)
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    results = call(op, backend, sample, tensors)
    values = [result.detach().clone() for result in results]
    first = gradients(results, tensors, retain_graph=True)
    second = gradients(results, tensors, retain_graph=True)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(torch.equal(tensors[name], before[name]) for name in tensors)
    assert all(torch.equal(r, v) for r, v in zip(results, values, strict=True))
    memory = {tensor.untyped_storage().data_ptr() for tensor in tensors.values()}
    assert not memory & {result.untyped_storage().data_ptr() for result in results}


@every(few_samples)
def test_without_gradients_the_values_are_the_same(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    expected = call(op, backend, sample, tensors)
    with torch.no_grad():
        results = call(op, backend, sample, tensors)
    torch.testing.assert_close(results, expected)
    assert not any(result.requires_grad for result in results)


@every(few_samples)
def test_the_gradient_of_a_single_result_matches(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    results, expected = call(op, backend, sample, tensors), define(op, sample, tensors)
    marked = [tensor for tensor in tensors.values() if tensor.requires_grad]
    for result, wanted in zip(results, expected, strict=True):
        found, exact = (
            torch.autograd.grad(r.sum(), marked, retain_graph=True, materialize_grads=True)
            for r in (result, wanted)
        )
        torch.testing.assert_close(found, exact)


@every(few_samples)
def test_the_gradient_of_a_single_argument_matches(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    wanted = gradients(call(op, backend, sample, tensors), tensors)
    for name in wanted:
        alone = {n: t.detach().requires_grad_(n == name) for n, t in tensors.items()}
        found = gradients(call(op, backend, sample, alone), alone)
        torch.testing.assert_close(found, {name: wanted[name]})


@EVERY_OP
def test_samples_have_unique_names_and_the_same_numbers_each_time_and_in_every_precision(op: Op):
    names = [sample.name for sample in samples_of(op)]
    assert len(names) == len(set(names))
    for sample in few_samples(op):
        first, again, single = map(sample.make, (torch.float64, torch.float64, torch.float32))
        for name, tensor in first.items():
            assert torch.equal(tensor, again[name])
            torch.testing.assert_close(tensor.to(single[name].dtype), single[name])
