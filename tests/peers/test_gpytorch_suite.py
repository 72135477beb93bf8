"""GPyTorch: its test case of kernels."""

from __future__ import annotations

import unittest

import pytest
import torch
from gpytorch.kernels import RBFKernel
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

from representer.kernels import GPyTorchKernel, StringKernel

pytestmark = pytest.mark.peers
TEXTS = ["abcab", "bca", "aabbc", "cab", "abc", "b", "cc", "bab", "acb", "cabca"] * 5
LEARN = {"kernel__decay": (0.01, 0.99)}


class RowNumbers(BaseKernelTestCase):
    """The test case with row numbers as data."""

    def create_data_no_batch(self) -> torch.Tensor:
        return torch.arange(50.0)[:, None].expand(50, 10)

    def create_data_single_batch(self) -> torch.Tensor:
        return torch.arange(6.0).view(2, 3, 1)

    def create_data_double_batch(self) -> torch.Tensor:
        return (torch.arange(300.0) % 50).view(3, 2, 50, 1)


class TestTexts(RowNumbers, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        kernel = StringKernel(2, 0.5, base="delta").cosine()
        return GPyTorchKernel(kernel, TEXTS, **options)


class TestLearned(RowNumbers, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        kernels = [StringKernel(n, 0.5, base="delta").cosine() for n in (1, 2)]
        return GPyTorchKernel(kernels, TEXTS, LEARN, **options)


class TestControlRBF(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        return RBFKernel(**options)


del BaseKernelTestCase, RowNumbers
