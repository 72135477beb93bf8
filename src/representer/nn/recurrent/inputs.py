"""Input checks and packing of sequence layers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from representer.errors import ArgumentError, KindError, ShapeError
from representer.ops.checks import can_be_read, dtypes_meet, wrong_device
from representer.ops.sequence import check_length_range


def check_input(
    input: object, input_size: int, batch_first: bool, *, like: Tensor | None = None
) -> bool:
    """Check an input, and compare its dtype and device with ``like``, a parameter of the layer.

    Returns:
        True if the input is batched.

    Raises:
        KindError: If it is not a floating-point tensor of the layer's dtype and device.
        ShapeError: If its shape is wrong.
    """
    if not isinstance(input, Tensor):
        raise KindError("input", type(input).__name__, "a tensor or a PackedSequence")
    if not input.is_floating_point():
        hint = "Use input.float(), or an nn.Embedding for token ids."
        raise KindError("input", str(input.dtype), "a floating-point dtype", hint=hint)
    layout = "(batch, time, {})" if batch_first else "(time, batch, {})"
    expected = f"{layout.format(input_size)} or unbatched (time, {input_size})"
    if input.dim() not in (2, 3):
        raise ShapeError("input", input.shape, expected)
    if input.shape[-1] != input_size:
        hint = f"The last axis is {input.shape[-1]}, input_size is {input_size}."
        raise ShapeError("input", input.shape, expected, hint=hint)
    time_axis = 1 if batch_first and input.dim() == 3 else 0
    if not input.shape[time_axis]:
        raise ShapeError("input", input.shape, f"{expected} with at least one time step")
    if like is not None:
        if input.device != like.device:
            names = "the layer's ", " or move the layer"
            raise wrong_device("input", input, like.device, *names)
        if not dtypes_meet(input, like):
            hint = f"Use input.to({like.dtype}), or layer.to({input.dtype})."
            raise KindError("input", str(input.dtype), f"the layer's {like.dtype}", hint=hint)
    return input.dim() == 3


def check_lengths(x: Tensor, lengths: object, stride: int) -> None:
    """Check the lengths of sequences ``(T, B, I)``, which must be multiples of the stride.

    Raises:
        KindError: If they are not integers.
        ShapeError: If there is not one per sequence, or one is not a multiple of the stride.
        ArgumentError: If one is out of range; those on a device are checked by the recurrence.
    """
    time, batch, _ = x.shape
    ends = [time]
    if lengths is not None:
        is_tensor = isinstance(lengths, Tensor)
        if not is_tensor or lengths.dtype not in (torch.int32, torch.int64):
            received = str(lengths.dtype) if is_tensor else type(lengths).__name__
            raise KindError("lengths", received, f"a tensor of {batch} integers")
        if lengths.shape != (batch,):
            raise ShapeError("lengths", lengths.shape, f"({batch},), one per sequence")
        if can_be_read(lengths):
            check_length_range(lengths, time)
        is_read = stride > 1 and not torch.compiler.is_compiling()
        ends = lengths.tolist() if is_read else []
    invalid = [end for end in ends if end % stride]
    if invalid:
        hint = f"Crop it to {invalid[0] // stride * stride} steps or pad it."
        expected = f"a multiple of {stride} time steps, the stride"
        raise ShapeError("input", (invalid[0],), expected, hint=hint)


def unpack(packed: PackedSequence, lengths: object = None) -> tuple[Tensor, Tensor]:
    """Return the sequences padded with zeros ``(T, B, I)`` and their lengths ``(B,)``.

    Raises:
        ArgumentError: If other lengths are given.
        ShapeError: If the sequences do not consist of feature vectors.
    """
    if packed.data.dim() != 2:
        hint = "Pack sequences of shape (time, features)."
        raise ShapeError("input.data", packed.data.shape, "(steps, features)", hint=hint)
    if lengths is not None:
        raise ArgumentError("lengths", lengths, "None: a packed batch has its own lengths")
    x, own = pad_packed_sequence(packed)
    return x, own.to(x.device)


def zero_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """Set ``(T, B, I)`` beyond each sequence's length to 0."""
    is_real = torch.arange(x.shape[0], device=x.device)[:, None] < lengths
    return torch.where(is_real[:, :, None], x, 0.0)


def pack_like(output: Tensor, lengths: Tensor, packed: PackedSequence) -> PackedSequence:
    """Pack ``(T, B, H)`` in the order of another packed batch with the same lengths."""
    if packed.sorted_indices is not None:
        output = output.index_select(1, packed.sorted_indices)
        lengths = lengths.index_select(0, packed.sorted_indices)
    data, batch_sizes, _, _ = pack_padded_sequence(output, lengths.cpu())
    return PackedSequence(data, batch_sizes, packed.sorted_indices, packed.unsorted_indices)
