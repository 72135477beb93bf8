"""The recent tokens of a text: a string kernel of order 1 with a decay."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from representer.errors import ArgumentError
from representer.ops.gated_scan import gated_scan

Floats = NDArray[np.float64]


class RecentTokens:
    r"""The frequency of each token among those already read, recent ones counting more.

    .. math::
        s_t(w) = (1 - \lambda) \sum_{i \le t} \lambda^{t - i}\, \mathbb 1[x_i = w], \qquad
        \sum_w s_t(w) = 1 - \lambda^t

    the string kernel of order 1 between the text and w, with one-hot tokens (L17 (1)): a cache.

    Args:
        decay: λ in (0, 1).

    References:
        Kuhn and De Mori, A Cache-Based Natural Language Model for Speech Recognition, 1990.
    """

    def __init__(self, decay: float) -> None:
        if not 0 < decay < 1:
            raise ArgumentError("decay", decay, "a number between 0 and 1")
        self.decay = decay

    def of_text(self, tokens: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return s of each token of a text just before it, and the sum of s ``(T,)`` each."""
        if not len(tokens):
            return np.zeros(0), np.zeros(0)
        order = np.argsort(tokens, kind="stable")  # the places of each token, in reading order
        is_repeated = np.append(False, tokens[order[1:]] == tokens[order[:-1]])
        gaps = np.append(0, np.diff(order))
        kept = np.where(is_repeated, self.decay ** np.maximum(gaps, 1), 0.0)
        u, f = (torch.from_numpy(part)[:, None, None] for part in (kept / self.decay, kept))
        found = np.empty(len(tokens))
        found[order] = (1 - self.decay) * gated_scan(u, f)[0][:, 0, 0].numpy()
        return found, 1 - np.power(self.decay, np.arange(len(tokens), dtype=np.float64))

    def after(self, tokens: NDArray[np.int64], before: Floats) -> Floats:
        """Return s after the last token of a text ``(V,)``, see `read`."""
        powers = self.decay ** np.arange(len(tokens))[::-1]
        counts = np.bincount(tokens, weights=powers, minlength=len(before))
        return self.decay ** len(tokens) * before + (1 - self.decay) * counts

    def read(self, tokens: NDArray[np.int64], before: Floats) -> Floats:
        """Return s after each token of a text ``(T, V)``.

        Args:
            tokens: ``(T,)``.
            before: s before them ``(V,)``; zeros at the beginning of a text.
        """
        powers = self.decay ** np.arange(len(tokens) + 1)
        s = powers[1:, None] * before
        for t, token in enumerate(tokens.tolist()):
            s[t:, token] += (1 - self.decay) * powers[: len(tokens) - t]
        return s
