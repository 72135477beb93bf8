"""Sequences of up to 10^6 steps: decays near 1, pieces of a stream, and memory."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from faults import Case, Suite
from representer import nn
from representer.functional import StringChain
from representer.ops import gated_scan, string_scan

ORDERS = range(1, 9)
DECAYS = (0.0, 0.5, 0.999, 1 - 1e-5, 1 - 1e-7)
COMBINES, NORMALIZED, READOUTS = (
    ("multiply", "add", "add_exact"), ("no", "paper", "exact"), ("last", "sum"),
)  # fmt: skip
SHARE = {torch.float64: 1e-12, torch.float32: 5e-6}  # of the largest entry, for a stream in pieces
STEPS, STREAM = 100_000, 1_000_000
GROWTH = 8 * 2**10  # KiB by which memory may grow over a stream: the allocator's own
Results = tuple[Tensor, Tensor, Tensor]


def scanned(chain: StringChain, decay: Tensor, z: Tensor, state: Tensor | None = None) -> Results:
    """Run a chain on products."""
    _, batch, _, units = z.shape
    state = z.new_zeros(batch, chain.states, units) if state is None else state
    return string_scan(z, z.new_zeros(batch, units), state, chain=chain, decay=decay)


def is_finite_or_overflows_in_float64(chain: StringChain, decay: float, mean: float) -> None:
    """Run 10^5 steps in float32: finite, or beyond float32 in exact arithmetic as well."""
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(STEPS, 1, chain.order, 4, generator=draw, dtype=torch.float64) + mean
    lam = torch.tensor(decay, dtype=torch.float64)
    exact = scanned(chain, lam.float().double(), z.float().double())[0]
    found = scanned(chain, lam.float(), z.float())[0]
    fits = exact.abs() < torch.finfo(torch.float32).max / 1e3  # of the states behind a sum, too
    running = torch.cummin(fits.to(torch.int8), 0).values.bool()
    assert found[running].isfinite().all(), "float32 overflows where the result fits"
    if chain.normalized != "no":
        assert exact.isfinite().all(), "a normalized chain overflows"


def is_a_stream(chain: StringChain, decay: float, dtype: torch.dtype) -> None:
    """Run pieces of unequal lengths with the state carried on: the whole sequence again."""
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(STEPS // 10, 2, chain.order, 5, generator=draw, dtype=torch.float64)
    z, lam = (0.1 * z).to(dtype), torch.tensor(decay, dtype=torch.float64).to(dtype)
    whole, _, last = scanned(chain, lam, z)
    state, pieces = None, []
    for piece in z.split((1, 2, 63, 64, 65, 1024, len(z) - 1219)):
        output, _, state = scanned(chain, lam, piece, state)
        pieces.append(output)
    assert state is not None
    for found, wanted in ((torch.cat(pieces), whole), (state, last)):
        difference, largest = (found - wanted).abs().max().item(), wanted.abs().max().item()
        limit = SHARE[dtype] * max(largest, 1e-3)
        assert difference <= limit, f"pieces differ by {difference:.2g} of {largest:.2g}"


def is_a_gated_stream(decay: str, dtype: torch.dtype, reverse: bool) -> None:
    """Run `gated_scan` over 10^6 steps with decays up to 1 - 1e-7, whole and in pieces."""
    draw, sizes = torch.Generator().manual_seed(0), (STREAM, 1, 3)
    u = torch.randn(sizes, generator=draw, dtype=torch.float64)
    shape = {"scalar": (), "vector": (3,), "full": sizes}[decay]
    f = (1 - 10.0 ** (-7 * torch.rand(shape, generator=draw, dtype=torch.float64))).to(dtype)
    u = u.to(dtype)
    whole, last = gated_scan(u, f, reverse=reverse)
    exact, _ = gated_scan(u.double(), f.double(), reverse=reverse, backend="cpp")
    assert whole.isfinite().all()
    # each of the steps that a state remembers rounds once, at random
    share = torch.finfo(dtype).eps * STREAM**0.5
    assert (whole - exact).abs().max() <= share * exact.abs().max()
    state, pieces = None, []
    parts = list(range(0, STREAM, 99_991))
    for first in reversed(parts) if reverse else parts:
        own = f[first : first + 99_991] if f.dim() == 3 else f
        states, state = gated_scan(u[first : first + 99_991], own, state, reverse=reverse)
        pieces.append(states)
    found = torch.cat(pieces[::-1] if reverse else pieces)
    assert (found - whole).abs().max() <= SHARE[dtype] * whole.abs().max()
    assert state is not None
    assert (state - last).abs().max() <= SHARE[dtype] * whole.abs().max()


def is_flat(name: str) -> None:
    """Stream 10^6 steps through a layer: memory stays what it was, and results finite."""
    torch.manual_seed(0)
    string = partial(nn.StringKernelRNN, order=3, decay=1 - 1e-7)
    layer, state, block = nn.TABLE1.get(name, string)(4, 16), None, torch.randn(1000, 1, 4)
    peaks, output = [], block
    with torch.no_grad():
        for i in range(STREAM // len(block)):
            output, state = layer(block, state)
            if i in (20, 999):
                gc.collect()
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert output.isfinite().all()
    assert peaks[1] - peaks[0] <= GROWTH, f"memory grew by {peaks[1] - peaks[0]:,} KiB"


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield the cases; a small share has the first orders only."""
    orders = [n for n in ORDERS if n <= max(1, round(8 * share))]
    for order in orders:
        for i, options in enumerate(product(COMBINES, NORMALIZED, READOUTS)):
            chain = StringChain(order, *options)  # type: ignore[arg-type]
            label = chain.code.replace(" ", "-")
            for k, decay in enumerate(DECAYS):
                mean = float((i + k) % 3)
                run = partial(is_finite_or_overflows_in_float64, chain, decay, mean)
                yield Case("string_scan", f"{label}-{decay:g}-mean-{mean:g}", run)
                dtype = (torch.float64, torch.float32)[(i + k) % 2]
                run = partial(is_a_stream, chain, decay, dtype)
                yield Case("streams", f"{label}-{decay:g}-{dtype}", run)
    for decay, dtype, reverse in product(("scalar", "vector", "full"), SHARE, (False, True)):
        run = partial(is_a_gated_stream, decay, dtype, reverse)
        yield Case("gated_scan", f"gated-{decay}-{dtype}-{reverse}", run)
    for name in ("StringKernelRNN", *nn.TABLE1) if share == 1 else ():
        yield Case("memory of a stream", name, partial(is_flat, name))


SUITES = {
    "long_sequences": Suite(
        "Sequences of 10^5 and 10^6 steps with decays up to 1 - 1e-7: no overflow where the result "
        "fits, pieces equal to the whole, and memory that does not grow",
        cases,
    )
}
