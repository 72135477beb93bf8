"""Conversion of state dicts of version 0.1.0."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor, nn

from representer.nn.recurrent.sequence_layer import SequenceLayer

# The new name of a parameter of the n-th direction of a layer, before the suffix of the direction.
_MOVED = {
    "recurrent": "weight_hh",
    "input_weight": "weight_ih",
    "bias": "bias",
    "decay_logit": "decay_logit",
    "parametrizations.recurrent": "parametrizations.weight_hh",
    "static": "static_gates",
    "activation": "activation",
}
_PLACE = re.compile(r"directions\.(\d+)\.(.+)")
_LENGTH = re.compile(r"filters\.weights\.(\d+)")


def convert_state_dict(state_dict: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Convert a state dict of version 0.1.0 to the current names and shapes.

    Entries that already have these are not changed, so any state dict may be given.

    Args:
        state_dict: The state dict, which is not modified.
        module: The layer or model that will load it.

    Examples:
        >>> import torch
        >>> from representer import nn
        >>> layer = nn.RKMLSTM(2, 3)
        >>> old = {"directions.0.filters.weights.0": torch.ones(4, 3, 2, 1)}
        >>> {name: tuple(w.shape) for name, w in convert_state_dict(old, layer).items()}
        {'weight_ih_l0': (12, 2)}
    """
    layers = {
        f"{name}." if name else "": layer
        for name, layer in module.named_modules()
        if isinstance(layer, SequenceLayer)
    }
    shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
    converted: dict[str, Tensor] = {}
    for name, tensor in state_dict.items():
        match = _PLACE.search(name)
        layer = layers.get(name[: match.start()]) if match else None
        new = {name: tensor}
        if match and layer is not None and int(match[1]) < len(layer.suffixes):
            own = _of_direction(layer, int(match[1]), match[2], tensor)
            new = {name[: match.start()] + key: value for key, value in own.items()} or new
        if name not in shapes and f"{name}.0" in shapes:  # split into one per layer
            new = {f"{name}.{layer}": own for layer, own in enumerate(tensor)}
        for key, value in new.items():
            # tensors stacked along a further axis are now matrices or vectors
            is_stacked = value.dim() > 1 and value.flatten(0, 1).shape == shapes.get(key)
            converted[key] = value.flatten(0, 1) if is_stacked else value
    return converted


def _of_direction(layer: SequenceLayer, k: int, name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Convert a parameter of the k-th direction; return {} for other parameters."""
    suffix = layer.suffixes[k]
    if name.startswith("psi."):  # all directions share it
        return {name: tensor}
    if name == "norm.scale" and len(tensor) == 2:
        gain, offset = tensor
        return {f"step_norm{suffix}.weight": gain, f"step_norm{suffix}.bias": offset}
    length = _LENGTH.fullmatch(name)
    if length and tensor.dim() == 4:  # (G, units, I, n), slots last
        weights = [n for n, _ in layer.named_parameters() if n.startswith("weight_ih")]
        own = dict(enumerate(n for n in weights if n.endswith(suffix)))
        slots = tensor.movedim(3, 2).flatten(2).flatten(0, 1)
        return {own.get(int(length[1]), name): slots}
    if name.startswith("filters.") and getattr(layer, f"wavelets{suffix}", None) is not None:
        return {f"wavelets{suffix}{name.removeprefix('filters')}": tensor}
    if name.startswith("norm."):
        kind = "step_norm" if name.split(".")[1] in ("running", "batches") else "cell_norm"
        return {f"{kind}{suffix}{name.removeprefix('norm')}": tensor}
    for old, new in _MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return {f"{new}{suffix}{name.removeprefix(old)}": tensor}
    return {}
