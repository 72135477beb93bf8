"""Conversion of the state dicts of version 0.1.0, whose layers had weights of other shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor, nn

from representer.nn.recurrent.sequence_layer import SequenceLayer

# Where a parameter of the n-th direction of a layer is now; the suffix of the direction follows.
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
    """Return a state dict of version 0.1.0 with the names and shapes of today.

    Entries that have them already stay as they are, so that any state dict may be given.

    Args:
        state_dict: The state dict; it is not changed.
        module: The layer or model that is to load it.

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
        place = _PLACE.search(name)
        layer = layers.get(name[: place.start()]) if place else None
        new = {name: tensor}
        if place and layer is not None and int(place[1]) < len(layer.suffixes):
            own = _of_direction(layer, int(place[1]), place[2], tensor)
            new = {name[: place.start()] + key: value for key, value in own.items()} or new
        if name not in shapes and f"{name}.0" in shapes:  # one parameter a layer was a part of it
            new = {f"{name}.{layer}": own for layer, own in enumerate(tensor)}
        for key, value in new.items():
            # what was stacked along a further axis is now a matrix, or a vector
            is_stacked = value.dim() > 1 and value.flatten(0, 1).shape == shapes.get(key)
            converted[key] = value.flatten(0, 1) if is_stacked else value
    return converted


def _of_direction(layer: SequenceLayer, k: int, name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Return what a parameter of the k-th direction is now, if it is one."""
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
