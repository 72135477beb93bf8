"""The network of any kernel, whose units evaluate it against learned references."""

from __future__ import annotations

from representer.kernel_network.network import KernelNetwork
from representer.kernel_network.objects import read_objects
from representer.kernel_network.values import layer_references, layer_values, no_program

__all__ = ["KernelNetwork", "layer_references", "layer_values", "no_program", "read_objects"]
