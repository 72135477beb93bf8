"""Input checks and word vectors of the models of token sequences."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError, ShapeError


def check_tokens(tokens: Tensor, lengths: Tensor) -> None:
    """Check a padded batch of token ids.

    Args:
        tokens: Ids ``(B, T)``.
        lengths: Number of tokens of each row before the padding ``(B,)``.

    Raises:
        ShapeError: If a shape is wrong.
        KindError: If a dtype is wrong.
        ArgumentError: If a length is outside [0, T].
    """
    if tokens.dim() != 2 or not tokens.shape[1]:
        hint = "Pad the sequences of a batch to one length, at least 1."
        raise ShapeError("tokens", tuple(tokens.shape), "(batch, time)", hint=hint)
    if lengths.shape != tokens.shape[:1]:
        raise ShapeError("lengths", tuple(lengths.shape), f"({tokens.shape[0]},)")
    for name, tensor in (("tokens", tokens), ("lengths", lengths)):
        if tensor.dtype not in (torch.int64, torch.int32):
            raise KindError(name, str(tensor.dtype), "int64", hint="Use .long().")
    # on a GPU this would synchronize; in the compiler it would break the graph
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling():
        is_invalid = (lengths < 0) | (lengths > tokens.shape[1])
        if is_invalid.any():
            first = int(is_invalid.nonzero()[0])
            name = f"lengths[{first}]"
            raise ArgumentError(name, int(lengths[first]), f"a length from 0 to {tokens.shape[1]}")


def copy_vectors(embedding: nn.Embedding, vectors: Tensor, *, freeze: bool) -> None:
    """Copy word vectors to an embedding, except for the padding row.

    Args:
        embedding: The embedding.
        vectors: One vector per token ``(V, E)``.
        freeze: Exclude them from training.

    Raises:
        ShapeError: If the shape is not that of the embedding.
    """
    weight = embedding.weight
    if vectors.shape != weight.shape:
        raise ShapeError("vectors", tuple(vectors.shape), f"{tuple(weight.shape)}")
    with torch.no_grad():
        weight.copy_(vectors)
        if embedding.padding_idx is not None:
            weight[embedding.padding_idx] = 0
    weight.requires_grad_(not freeze)
