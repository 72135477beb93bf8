"""The table of the networks of kernels: how kernels are written, and what a row says."""

from __future__ import annotations

from representer.kernels import Gaussian, RecurrentKernel, StringKernel, SubtreeKernel


def test_a_kernel_is_shown_as_it_is_written(bench):
    shown = bench("kernel_networks").shown
    k = 2 * (StringKernel() + StringKernel(3, base=Gaussian())).cosine() ** 2
    assert shown(k) == "2 * (S() + S(base=Gaussian(), order=3)).cosine() ** 2"


def test_a_row_says_what_the_network_is_or_why_there_is_none(bench):
    module = bench("kernel_networks")
    kernel, network, fused, back, error, _ = module.row(StringKernel() * RecurrentKernel(), 1)
    assert (kernel, network) == ("`S() * RecurrentKernel()`", "`KernelNetwork`")
    assert (fused, back) == ("1 of 2", "equal")
    assert float(error) < 1e-10
    assert module.row(RecurrentKernel(), 1)[3] == "repeat"
    assert "counts colors" in module.row(SubtreeKernel(), 1)[-1]
