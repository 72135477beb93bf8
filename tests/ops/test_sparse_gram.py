"""Inner products of sparse rows on the core, against those of dense rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from ops.trials import threads
from representer.kernels.kmer_kernel import inner_products
from representer.ops import core
from representer.ops.features import sparse_gram

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING or "")


@pytest.mark.parametrize("isa", core.USABLE)
@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize(("dtype", "rounding"), [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 0), (40, 7), (130, 900)])
def test_inner_products_are_those_of_dense_rows(isa, number, dtype, rounding, shape):
    rng = np.random.default_rng(0)
    dense = (rng.normal(size=shape) * (rng.random(shape) < 0.2)).astype(dtype)
    rows = sparse.csc_array(dense)
    with core.instruction_set(isa), threads(number):
        gram = sparse_gram(rows)
    assert gram.dtype == dtype
    np.testing.assert_allclose(gram, dense @ dense.T, rtol=rounding, atol=rounding)
    np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.longdouble])
def test_numbers_that_the_core_does_not_read_are_read_as_float64(dtype):
    dense = np.array([[1, 0, 2], [0, 3, 0]])
    gram = inner_products(sparse.csr_array(dense.astype(dtype)))
    assert gram.dtype == np.float64
    np.testing.assert_array_equal(gram, dense @ dense.T)


def test_columns_in_any_order_and_entries_that_stand_twice_are_summed():
    values, columns, ends = np.array([1.0, 2.0, 4.0, 3.0]), np.array([2, 0, 2, 1]), [0, 3, 4]
    rows = sparse.csr_array((values, columns, ends), shape=(2, 3))
    np.testing.assert_array_equal(inner_products(rows), [[29.0, 0.0], [0.0, 9.0]])


def test_inner_products_are_the_same_without_the_core(monkeypatch):
    rows = sparse.random_array((90, 200), density=0.1, rng=np.random.default_rng(0), format="csr")
    with_core = inner_products(rows)
    monkeypatch.setattr(core, "MISSING", "it is not there")
    np.testing.assert_allclose(inner_products(rows), with_core, rtol=1e-13, atol=1e-13)
