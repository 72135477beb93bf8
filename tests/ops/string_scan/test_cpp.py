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

from ..cases import LAYOUTS, as_it_is, assert_on_every_instruction_set, differentiable, moved

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


def _evaluate(
    function: Any, case: Case, dtype: torch.dtype, layout: Any, seed: int | None = None, **more: Any
):
    """Return results and gradients, by name; a seed moves the operands by up to an ulp."""
    chain, options, size, units, reverse = case
    given = tensors(chain, (*size, units), options.replace("lengths", ""), torch.float32)
    given = given if seed is None else moved(given, seed)
    if "lengths" in options:
        more["lengths"] = (size[0] - torch.arange(size[1])) % (size[0] + 1)
    operands = {name: layout(tensor.to(dtype)) for name, tensor in given.items()}
    marked = {
        n: t.requires_grad_() for n, t in operands.items() if n in differentiable("string_scan")
    }
    results = function(**operands, chain=chain, reverse=reverse, **more)
    generator = torch.Generator().manual_seed(2)
    slopes = [layout(torch.randn(r.shape, generator=generator).to(dtype)) for r in results]
    found = torch.autograd.grad(results, list(marked.values()), slopes, materialize_grads=True)
    named = {f"gradient of {n}": g for n, g in zip(marked, found, strict=True)}
    return {**{f"result {i}": r.detach() for i, r in enumerate(results)}, **named}


def _check(case: Case, layout: Any) -> None:
    define = OPS["string_scan"].definition
    assert_on_every_instruction_set(
        case,
        lambda dtype: _evaluate(string_scan, case, dtype, layout, backend="cpp"),
        lambda dtype, seed=None: _evaluate(define, case, dtype, as_it_is, seed),
    )


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
