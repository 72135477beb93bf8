"""Without gradients, few units run as one row of entries (csrc/string_flat.hpp)."""

from __future__ import annotations

import pytest
import torch

from looped import looped
from ops.samples.string_scan import CHAINS, tensors
from ops.trials import threads
from representer.functional import StringChain
from representer.ops import core, string_scan

from ..test_ops import TOLERANCE

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)

UNITS = (1, 2, 5, 15, 16, 17, 30, 64, 65)  # the last has no such path
SIZES = ((2, 1), (7, 3), (3, 33), (50, 5), (2, 200))  # several blocks of steps; several chunks
OPTIONS = ("input", "input vector", "input carry")


def results(chain: StringChain, given: dict[str, torch.Tensor], backend: str, reverse: bool):
    with torch.no_grad():
        return string_scan(**given, chain=chain, reverse=reverse, backend=backend)


@looped("number", range(len(UNITS) * len(SIZES)))
def test_every_chain_of_few_units_matches_the_reference(number: int):
    """A sixth of the chains with each number of units and size, each chain with half of both."""
    units, (time, batch) = UNITS[number % len(UNITS)], SIZES[number % len(SIZES)]
    dtype = (torch.float32, torch.float64)[number // len(UNITS) % 2]
    for i, chain in list(enumerate(CHAINS.values()))[(number + number // 9) % 6 :: 6]:
        given = tensors(chain, (time, batch, units), OPTIONS[(i + number) % 3], dtype)
        reverse = (i + number) % 2 == 1
        expected = results(chain, given, "reference", reverse)
        for isa in core.USABLE:
            with core.instruction_set(isa):
                found = results(chain, given, "cpp", reverse)
            for one, other in zip(found, expected, strict=True):
                scale = float(other.abs().max()) + 1e-3
                torch.testing.assert_close(
                    one, other, rtol=0, atol=scale * 10 * TOLERANCE[dtype],
                    msg=lambda text, isa=isa: f"{isa}: {text}",
                )  # fmt: skip


@pytest.mark.parametrize("isa", core.USABLE or ["portable"])
@looped("units", UNITS)
def test_the_number_of_threads_changes_no_bit(isa: str, units: int):
    chain = CHAINS["first_gated"]
    given = tensors(chain, (9, 37, units), "input carry", torch.float32)
    with core.instruction_set(isa):
        one = results(chain, given, "cpp", False)
        for number in (2, 4):
            with threads(number):
                found = results(chain, given, "cpp", False)
            assert all(map(torch.equal, found, one))
