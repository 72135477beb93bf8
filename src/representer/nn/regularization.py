"""Regularization of recurrent networks: dropout with locked masks, of words and of weights."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.layer import check_probability
from representer.nn.recurrent.sequence_layer import SequenceLayer

# Dropout of all occurrences of a word in a batch.


class EmbeddingDropout(nn.Module):
    r"""Embedding lookup with dropout of words in training.

    .. math::
        x_t = \frac{m_{w_t}}{1 - p} E_{w_t}, \qquad m_w \sim \operatorname{Bernoulli}(1 - p)

    with one :math:`m` per call: all occurrences of a word are dropped, and the other words are
    scaled up. The embedding is an argument, so that it can be a parameter of another module and be
    shared with a tied softmax, which uses all words.

    Args:
        p: Fraction of words to drop.

    Shape:
        - weight ``(V, E)``, tokens ``(…)`` int64, output ``(…, E)``

    Raises:
        ArgumentError: If p is not in [0, 1].

    References:
        Gal & Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural
        Networks, NeurIPS 2016, section 4.2; Merity et al., ICLR 2018, section 4.3.
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = check_probability("p", p)

    def forward(self, weight: Tensor, tokens: Tensor) -> Tensor:
        """Return the vectors of words, ``tokens`` being their rows in ``weight``."""
        vectors = F.embedding(tokens, weight)
        if not (self.training and self.p):
            return vectors
        kept = F.dropout(torch.ones_like(weight[:, 0]), self.p)  # of all words
        return vectors * kept[tokens][..., None]

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


# Dropout with one mask for all steps of a sequence.


class LockedDropout(nn.Module):
    r"""Dropout of the same features of a sequence at every step.

    .. math::
        y_t = \frac{m}{1 - p} \odot x_t, \qquad m_{bd} \sim \operatorname{Bernoulli}(1 - p)

    with one mask :math:`m` per call and sequence. In evaluation, it is the identity.

    Args:
        p: Fraction of features to drop.

    Shape:
        - input and output ``(T, B, D)``

    Raises:
        ArgumentError: If p is not in [0, 1].

    References:
        Gal & Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural
        Networks, NeurIPS 2016; Merity et al., Regularizing and Optimizing LSTM Language Models,
        ICLR 2018, section 4.2.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_probability("p", p)

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to the sequences ``(T, B, D)``.

        Raises:
            ShapeError: If the input is not ``(T, B, D)``.
        """
        if x.dim() != 3:
            raise ShapeError("x", tuple(x.shape), "(time, batch, features)")
        if not (self.training and self.p):
            return x
        return x * F.dropout(torch.ones_like(x[:1]), self.p)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


# Access to a weight without DropConnect.


def undropped(module: nn.Module, name: str) -> Any:
    """Return a weight, which may be None, as in evaluation mode."""
    if not parametrize.is_parametrized(module, name):
        return getattr(module, name)
    parts = cast(Any, module.parametrizations)[name]
    was_training = parts.training
    parts.eval()
    try:
        return getattr(module, name)
    finally:
        parts.train(was_training)


# Dropout of the entries of recurrent matrices.

_Module = TypeVar("_Module", bound=nn.Module)


class DropConnect(nn.Module):
    r"""A parametrization that drops entries of a weight in training.

    .. math::
        \tilde W_{ij} = \frac{m_{ij}}{1 - p} W_{ij}, \qquad
        m_{ij} \sim \operatorname{Bernoulli}(1 - p)

    It draws a mask at every access of the weight. Layers access their recurrent weights once per
    call, so with `drop_connect` all steps of a sequence share a mask.

    Args:
        p: Fraction of the entries to drop.

    Shape:
        - input and output ``(…)``

    Raises:
        ArgumentError: If p is not in [0, 1].

    References:
        Wan et al., Regularization of Neural Networks using DropConnect, ICML 2013; Merity et al.,
        Regularizing and Optimizing LSTM Language Models, ICLR 2018, section 2.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_probability("p", p)
        self._is_held, self._held = False, cast(tuple[Tensor, ...], ())

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight after dropping entries."""
        if not self._is_held or torch.compiler.is_compiling():
            return F.dropout(weight, self.p, self.training)
        if not self._held:  # in a tuple, so that a weight is not registered as a parameter
            self._held = (F.dropout(weight, self.p, self.training),)
        return self._held[0]

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Return the weight, which is stored unchanged when it is set."""
        return weight

    def hold(self, is_held: bool) -> None:
        """Start or stop reusing a mask, for layers that access the weight repeatedly."""
        self._is_held, self._held = is_held, ()

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


def drop_connect(module: _Module, p: float = 0.5) -> _Module:
    """Drop entries of the recurrent matrices of a layer in training, with one mask per call.

    Only hidden-to-hidden matrices are affected, not those of the input. The stored weights are
    those before dropping; their names in a ``state_dict`` contain ``parametrizations``.

    Args:
        module: A layer of this library, ``torch.nn.RNN``, ``LSTM`` or ``GRU``, modified in place.
        p: Fraction of the entries to drop.

    Returns:
        The module.

    Raises:
        KindError: If the module is not such a layer.
        ArgumentError: If it has no recurrent matrices, is already parametrized, or p is not in
            [0, 1].

    Examples:
        >>> layer = drop_connect(torch.nn.LSTM(3, 4), 0.5)
        >>> sorted(name for name, _ in layer.named_parameters())[2]
        'parametrizations.weight_hh_l0.original'

    References:
        Merity et al., Regularizing and Optimizing LSTM Language Models, ICLR 2018, section 2.
    """
    targets = _recurrent_weights(module)
    for owner, name in targets:
        if parametrize.is_parametrized(owner, name):
            raise ArgumentError(
                "module", type(module).__name__, "a layer whose recurrent weights are plain"
            )
    for owner, name in targets:
        parametrize.register_parametrization(owner, name, DropConnect(p))
    if isinstance(module, nn.RNNBase):
        # Torch accesses a weight several times per call, and stores it in a list that deepcopy
        # cannot copy: the hooks provide one mask per call, and the list keeps the stored weights.
        module.register_forward_pre_hook(_begin)
        module.register_forward_hook(_end, always_call=True)
    return module


def _recurrent_weights(module: nn.Module) -> list[tuple[nn.Module, str]]:
    """Return the modules and names of the recurrent matrices."""
    if isinstance(module, nn.RNNBase):
        names = [name for name in module._flat_weights_names if name.startswith("weight_hh")]
        return [(module, name) for name in names]
    if not isinstance(module, SequenceLayer):
        kinds = "a layer of representer.nn, torch.nn.RNN, LSTM or GRU"
        raise KindError("module", type(module).__name__, kinds)
    names = [f"weight_hh{suffix}" for suffix in module.suffixes]
    if any(getattr(module, name, None) is None for name in names):
        hint = "No gate of this layer depends on the hidden state."
        raise ArgumentError("module", str(module), "a layer with recurrent matrices", hint=hint)
    return [(module, name) for name in names]


def _hold(module: nn.Module, is_held: bool) -> None:
    for parametrization in cast(nn.Module, module.parametrizations).modules():
        if isinstance(parametrization, DropConnect):
            parametrization.hold(is_held)


def _begin(module: nn.Module, args: Any) -> None:
    _hold(module, True)


def _end(module: nn.Module, args: Any, output: Any) -> None:
    _hold(module, False)
    rnn = cast(nn.RNNBase, module)
    rnn._flat_weights = [undropped(rnn, name) for name in rnn._flat_weights_names]
