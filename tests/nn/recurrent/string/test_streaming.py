"""The memory of a stream is that of one chunk."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from representer import nn

from ..string_layers import EVERY_STRING_LAYER, build_string, string_batch

# In a separate process: the peak memory of the whole process is measured, in KiB.
LONG_STREAM = """
import resource, sys, torch
from representer import nn
torch.set_num_threads(1)
layer, chunk = nn.StringKernelRNN(8, 16, order=3, decay="input").eval(), torch.randn(2000, 1, 8)
state = None
for k in range(int(sys.argv[1])):
    output, state = layer(chunk, state)
    state = state.detach()
    if k == 4:
        early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(early, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, bool(output.isfinite().all()))
"""


@EVERY_STRING_LAYER
def test_the_size_of_a_state_does_not_depend_on_the_number_of_steps(name: str):
    layer = build_string(name)
    sizes, state = set(), None
    for time in (1, 5, 40):
        _, state = layer(string_batch(time), state)
        state = state.detach()
        kept = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in state}
        sizes.add(sum(kept.values()))
    assert len(sizes) == 1


def test_a_detached_stream_has_no_graph():
    layer, state = nn.StringKernelRNN(4, 4, decay="state"), None
    for _ in range(3):
        output, state = layer(torch.randn(5, 2, 4), state)
        assert output.grad_fn is not None
        state = state.detach()
        assert all(field.grad_fn is None for field in state)


@pytest.mark.slow
def test_memory_does_not_grow_over_a_million_steps():
    _assert_memory_stands_still(chunks=500)


def _assert_memory_stands_still(chunks: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG_STREAM, str(chunks)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    early, final, is_finite = done.stdout.split()
    assert is_finite == "True"
    # KiB; the states of the 40,000 steps between alone are 7,500
    assert int(final) - int(early) < 4096
