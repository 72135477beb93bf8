"""string_scan on the compiled core: the same on every instruction set, at every odd size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch

from looped import looped
from ops.samples.string_scan import CHAINS, tensors
from representer.functional import StringChain
from representer.ops import OPS, core, string_scan

from ..cases import LAYOUTS, as_it_is, assert_on_every_instruction_set, evaluated, moved

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)

UNITS = (1, 3, 17, 129)
SIZES = ((1, 1), (6, 1), (1, 3), (5, 9), (3, 26), (30, 14))  # the last: several blocks of steps
OPTIONS = ("", "mask vector lengths", "input", "input mask lengths", "input carry vector")
Case = tuple[StringChain, str, tuple[int, int], int, bool]


def _few(names: tuple[str, ...]) -> Iterator[tuple[str, Case]]:
    """Yield cases in which every option meets two sizes, and every size and layout occurs."""
    for i, (name, option) in enumerate(product(names, OPTIONS)):
        for n in (i, 3 * i + 2):
            size, units = SIZES[n % len(SIZES)], UNITS[(n // 2) % len(UNITS)]
            yield name, (CHAINS[name], option, size, units, (n + i) % 2 == 1)


def _check(case: Case, layout: Any) -> None:
    chain, option, size, units, reverse = case
    operands = tensors(chain, (*size, units), option.replace("lengths", ""), torch.float32)
    options: dict[str, Any] = {"chain": chain, "reverse": reverse}
    if "lengths" in option:
        options["lengths"] = (size[0] - torch.arange(size[1])) % (size[0] + 1)
    name, define = "string_scan", OPS["string_scan"].definition
    assert_on_every_instruction_set(
        case,
        lambda dtype: evaluated(
            name, string_scan, operands, {**options, "backend": "cpp"}, dtype, layout
        ),
        lambda dtype, seed=None: evaluated(
            name, define, operands if seed is None else moved(operands, seed), options, dtype,
            as_it_is,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_matches_the_definition_on_every_instruction_set(name: str):
    cases = [case for other, case in _few(tuple(CHAINS)) if other == name]
    for i, case in enumerate(cases):
        _check(case, LAYOUTS[i % len(LAYOUTS)])


@pytest.mark.parametrize("name", core.USABLE)
@looped("kind", CHAINS)
def test_nan_affects_only_later_steps_of_its_sequence(name: str, kind: str):
    chain = CHAINS[kind]
    given = tensors(chain, (5, 3, 20), "", torch.float32)
    given["x"][1, 1] = torch.nan
    with core.instruction_set(name):
        output, h, c = string_scan(**given, chain=chain, backend="cpp")
    assert output[1:, 1].isnan().all()
    assert c[1, : chain.order].isnan().all()
    for result in (output[0], output[:, 0], output[:, 2], h[0], h[2], c[0], c[2]):
        assert not result.isnan().any()


def test_the_core_refuses_calls_without_units():
    chain = CHAINS["second"]
    empty = tensors(chain, (2, 1, 0), "", torch.float32)
    with pytest.raises(RuntimeError, match="has nothing to do without units"):
        string_scan(**empty, chain=chain, backend="cpp")
    assert string_scan(**empty, chain=chain)[0].shape == (2, 1, 0)
