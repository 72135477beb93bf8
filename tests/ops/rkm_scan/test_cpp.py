"""rkm_scan on the compiled core: supported cells, and the input product inside the loop."""

from __future__ import annotations

import sys

import pytest
import torch

from ops.samples.rkm_scan import CELLS, tensors
from representer.functional.rkm import Cell
from representer.ops import core, rkm_scan

MODULE = sys.modules["representer.ops.rkm_scan"]  # whose name is that of its function, too

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)


def test_the_core_has_a_kernel_for_every_cell_of_the_library():
    for cell in CELLS.values():
        assert (len(cell.gates), len(cell.recurrent_gates)) in MODULE.KNOWN


def test_the_error_for_an_unknown_cell_states_its_numbers_of_gates():
    cell = Cell("dynamic", "dynamic", True, feedback="gates")
    operands = tensors(cell, (5, 3, 4), "", torch.float64)
    with pytest.raises(RuntimeError, match="has no kernel for 4 gates of which 3 depend on h"):
        rkm_scan(**operands, cell=cell, backend="cpp")
    assert rkm_scan(**operands, cell=cell)[0].shape == (5, 3, 4)  # on another backend
