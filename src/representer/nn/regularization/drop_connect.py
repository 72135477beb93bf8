"""Dropout of the entries of recurrent matrices."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from representer.errors import ArgumentError, KindError
from representer.nn.recurrent.options import check_probability
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.nn.regularization.undropped import undropped

_Module = TypeVar("_Module", bound=nn.Module)


class DropConnect(nn.Module):
    r"""A parametrization that drops, in training, entries of a weight.

    .. math::
        \tilde W_{ij} = \frac{m_{ij}}{1 - p} W_{ij}, \qquad
        m_{ij} \sim \operatorname{Bernoulli}(1 - p)

    It draws a mask every time the weight is read. `drop_connect` puts it where a layer reads its
    recurrent weights once a call, so that all steps of a sequence have the same mask.

    Args:
        p: Fraction of the entries to drop.

    Shape:
        - input and output of any shape

    Raises:
        ArgumentError: If p is not from 0 to 1.

    References:
        Wan et al., Regularization of Neural Networks using DropConnect, ICML 2013; Merity et al.,
        Regularizing and Optimizing LSTM Language Models, ICLR 2018, section 2.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_probability("p", p)
        self._is_held, self._held = False, cast(tuple[Tensor, ...], ())

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight as the layer sees it."""
        if not self._is_held or torch.compiler.is_compiling():
            return F.dropout(weight, self.p, self.training)
        if not self._held:  # a tuple: a weight that is not dropped would become a parameter here
            self._held = (F.dropout(weight, self.p, self.training),)
        return self._held[0]

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Return what is stored when a weight is set: the weight."""
        return weight

    def hold(self, is_held: bool) -> None:
        """Begin, or end, giving the same entries each time, for layers that read repeatedly."""
        self._is_held, self._held = is_held, ()

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


def drop_connect(module: _Module, p: float = 0.5) -> _Module:
    """Drop entries of the recurrent matrices of a layer in training, with one mask a call.

    Only the matrices between hidden states are dropped, never those on the input. The stored
    weights are those before dropping; in a ``state_dict`` their names have ``parametrizations`` in
    them.

    Args:
        module: A layer of this library, ``torch.nn.RNN``, ``LSTM`` or ``GRU``; it is changed.
        p: Fraction of the entries to drop.

    Returns:
        The module.

    Raises:
        KindError: If it is no such layer.
        ArgumentError: If it has no recurrent matrix, or is dropped already, or p is not from 0
            to 1.

    Examples:
        >>> layer = drop_connect(torch.nn.LSTM(3, 4), 0.5)
        >>> sorted(name for name, _ in layer.named_parameters())[-1]
        'parametrizations.weight_hh_l0.original'

    References:
        Merity et al., Regularizing and Optimizing LSTM Language Models, ICLR 2018, section 2.
    """
    places = _places(module)
    for owner, name in places:
        if parametrize.is_parametrized(owner, name):
            raise ArgumentError(
                "module", type(module).__name__, "a layer whose recurrent weights are plain"
            )
    for owner, name in places:
        parametrize.register_parametrization(owner, name, DropConnect(p))
    if isinstance(module, nn.RNNBase):
        # Torch reads a weight several times a call, and keeps what it read in a list that deepcopy
        # cannot copy: with the hooks it reads one mask, and keeps the stored weights.
        module.register_forward_pre_hook(_begin)
        module.register_forward_hook(_end, always_call=True)
    return module


def _places(module: nn.Module) -> list[tuple[nn.Module, str]]:
    """Return the modules and names of the recurrent matrices."""
    if isinstance(module, nn.RNNBase):
        names = [name for name in module._flat_weights_names if name.startswith("weight_hh")]
        return [(module, name) for name in names]
    if not isinstance(module, SequenceLayer):
        kinds = "a layer of representer.nn, torch.nn.RNN, LSTM or GRU"
        raise KindError("module", type(module).__name__, kinds)
    names = [f"weight_hh{suffix}" for suffix in module.suffixes]
    if any(getattr(module, name, None) is None for name in names):
        raise ArgumentError(
            "module",
            str(module),
            "a layer with recurrent matrices",
            hint="None of this layer's gates sees the hidden state.",
        )
    return [(module, name) for name in names]


def _hold(module: nn.Module, is_held: bool) -> None:
    for part in cast(nn.Module, module.parametrizations).modules():
        if isinstance(part, DropConnect):
            part.hold(is_held)


def _begin(module: nn.Module, args: Any) -> None:
    _hold(module, True)


def _end(module: nn.Module, args: Any, output: Any) -> None:
    _hold(module, False)
    rnn = cast(nn.RNNBase, module)
    rnn._flat_weights = [undropped(rnn, name) for name in rnn._flat_weights_names]
