"""Exact kernels: what the layers of ``nn`` compute, as functions of two objects."""

from representer.kernels.kernel import Kernel
from representer.kernels.recurrent_kernel import RecurrentKernel
from representer.kernels.string_kernel import StringKernel

__all__ = ["Kernel", "RecurrentKernel", "StringKernel"]
