"""The problems of M18 section 4: parity, charging, and the first two bits of a long sequence."""

from __future__ import annotations

import torch
from torch import Tensor

FUNCTIONS = {"or": (0, 1, 1, 1), "and": (0, 0, 0, 1), "xor": (0, 1, 1, 0), "iff": (1, 0, 0, 1)}
"""Values of each function on 00, 01, 10 and 11."""
SIGNS = {"or": "∨", "and": "∧", "xor": "⊕", "iff": "≡"}

CHARGES = {"paper": (0, 9), "authors_code": (1, 10)}
"""Smallest and largest charge added at a step, by preset."""


def parity(bits: int) -> tuple[Tensor, Tensor]:
    """Return the truth table of n bits ``(2^n, n)`` and the parity of each row ``(2^n,)``."""
    rows = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * bits)
    return rows, rows.sum(1) % 2


def charging(
    batch: int, preset: str, generator: torch.Generator, time: int = 30
) -> tuple[Tensor, Tensor]:
    """Return sequences with charges at three steps, and whether any charge is left at each step.

    h_t = x_t + max(0, h_{t-1} - 1), y_t = [h_t > 0] (M18 (7)). The three steps are drawn one by
    one; if two coincide, the later draw counts. x is ``(T, B, 1)`` and y ``(T, B)``.
    """
    low, high = CHARGES[preset]
    x = torch.zeros(time, batch)
    every = torch.arange(batch)
    for _ in range(3):
        places = torch.randint(0, time, (batch,), generator=generator)
        x[places, every] = torch.randint(low, high + 1, (batch,), generator=generator).float()
    charge, charges = torch.zeros(batch), []
    for x_t in x:
        charge = x_t + (charge - 1).clamp(min=0)
        charges.append(charge)
    return x[..., None], (torch.stack(charges) > 0).float()


def two_bits(
    function: str, time: int, batch: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return random bits ``(T, B, 1)`` and a function of the first two ``(B,)``."""
    x = torch.randint(0, 2, (time, batch), generator=generator)
    values = torch.tensor(FUNCTIONS[function])
    return x[..., None].float(), values[2 * x[0] + x[1]].float()
