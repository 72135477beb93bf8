"""Samples of rkm_scan for tests and benchmarks: every cell, every option, odd sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from representer.checks import installed
from representer.functional import rkm
from representer.functional.rkm import Cell

from . import Sample, normal

RKM = Cell("static", "static", False, output="tanh", memory="output")
CELLS: dict[str, Cell] = {
    **{name.lower(): cell for name, cell in vars(rkm).items() if isinstance(cell, Cell)},
    "rkm_lstm_tanh": replace(rkm.RKM_LSTM, output="tanh"),
    "rkm_tanh": RKM,
    "rkm_inverse": replace(RKM, output="inverse", feedback="none"),
    "rkm_polynomial": replace(RKM, output="polynomial"),
    "rkm_gaussian": replace(RKM, output="gaussian", memory="expm1"),
}
SIZES = ((1, 1, 1), (2, 1, 17), (5, 3, 4))


def samples() -> Iterator[Sample]:
    """Yield every cell plain, with each option, and with all of them."""
    others = {name: getattr(found, "cell", found) for name, found in installed("cells").items()}
    for name, cell in (CELLS | others).items():
        for sizes in SIZES:
            yield _sample(f"{name}-{'x'.join(map(str, sizes))}", cell, sizes)
        sizes = SIZES[-1]
        yield _sample(f"{name}-reverse", cell, sizes, reverse=True)
        yield _sample(f"{name}-input", cell, sizes, "input")
        yield _sample(f"{name}-input-lengths", cell, sizes, "input lengths", recompute=True)
        for options in ("norm", "hold", "lengths", "norm lengths", "norm hold lengths"):
            label = f"{name}-{options.replace(' ', '-')}"
            yield _sample(label, cell, sizes, options)
            if "lengths" in options:
                yield _sample(f"{label}-reverse", cell, sizes, options, reverse=True)


def _sample(
    name: str, cell: Cell, sizes: tuple[int, int, int], options: str = "", **flags: bool
) -> Sample:
    make = partial(tensors, cell, sizes, options)
    return Sample(name, make, {"cell": cell, "reverse": False, **flags}, ("hold", "lengths"))


def tensors(
    cell: Cell, sizes: tuple[int, int, int], options: str, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Return random arguments for a cell; ``options`` adds input, norm, hold, lengths."""
    time, batch, units = sizes
    draw = normal(time * 100 + batch * 10 + units, dtype)
    z = draw(time, batch, len(cell.gates), units, scale=0.5)
    arguments = {
        "z": z - 2 if cell.output in ("gaussian", "inverse") else z,  # away from poles and blow-up
        "h0": draw(batch, units, scale=0.3),
        "c0": draw(batch, units, scale=0.3),
    }
    if "input" in options:
        shape = (len(cell.gates), units, 2)
        arguments |= {"z": draw(time, batch, 2), "input_weight": draw(*shape, scale=0.3)}
        arguments["bias"] = (draw(*shape[:2]) - 4) / 2  # as far from blow-up as z above
    if cell.recurrent_gates:
        arguments["weight"] = draw(len(cell.recurrent_gates), units, units, scale=units**-0.5 / 2)
    if "static" in (cell.input_gate, cell.forget_gate):
        arguments["static"] = torch.sigmoid(draw(2, units))
    if "norm" in options:
        gain = 0.3 if cell.output == "inverse" else 1.0  # z / (2 - z) has a pole at 2
        arguments["norm"] = gain * (1 + draw(2, units, scale=0.2))
    if "hold" in options:
        arguments["hold"] = torch.sigmoid(draw(2, time, batch, units))
    if "lengths" in options:
        arguments["lengths"] = torch.tensor([max(time - 3, 0), time, 1, 2] * batch)[:batch]
    return arguments
