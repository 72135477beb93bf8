"""Weights of 8 bits."""

from __future__ import annotations

import numpy as np
import onnx

from representer.export.programs import LEAST, quantize

from .conftest import Exported


def test_quantizing_loses_at_most_half_a_step_along_the_better_axis():
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(20, 30)) * np.geomspace(1e-3, 1, 30)).astype(np.float32)
    axis, integers, scale = quantize(values, range(2))
    assert axis == 1
    assert (np.abs(integers * scale - values).max(axis=0) <= scale * 0.501).all()
    assert integers.dtype == np.int8
    values[:, 3] = 0
    assert not quantize(values, range(2))[1][:, 3].any()


def test_large_weights_are_integers_in_the_file(exported: Exported):
    graph = onnx.load(exported.run.folder / "model.int8.onnx").graph
    large = {each.name: each.data_type for each in graph.initializer
             if len(each.dims) > 1 and np.prod(each.dims) >= LEAST}  # fmt: skip
    assert large
    assert set(large.values()) == {onnx.TensorProto.INT8}
    of_embedding = [node.op_type for node in graph.node if node.input[0].endswith("weight_int8")]
    assert "Gather" in of_embedding  # rows are selected before they are converted
