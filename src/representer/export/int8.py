"""Weights of 8 bits in an ONNX file; activations and everything else stay in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.storage import atomic

LEAST = 1024  # entries of a weight; smaller ones save nothing


def to_int8(source: str | Path, path: str | Path) -> None:
    """Write an ONNX file with every large matrix of weights in 8 bits.

    A weight is :math:`s_i q_i` with one scale for each index i of one axis, the axis that
    loses least. Rows of an embedding are converted after they are selected.

    Args:
        source: An ONNX file in float32, as `to_onnx` writes it.
        path: The file to write.
    """
    import onnx_ir as ir

    model = ir.load(source)
    graph = model.graph
    for weight in [*graph.initializers.values()]:
        assert weight.const_value is not None
        values = weight.const_value.numpy()
        if values.dtype != np.float32 or values.ndim < 2 or values.size < LEAST:
            continue
        gathers = [node for node, k in weight.uses() if node.op_type == "Gather" and k == 0]
        axis, quantized, scale = quantize(values, (0,) if gathers else range(values.ndim))
        name = str(weight.name)
        graph.initializers.pop(name)
        q, s = (_initializer(graph, f"{name}_{suffix}", array)
                for suffix, array in (("int8", quantized), ("scale", scale)))  # fmt: skip
        for node in gathers:
            _gather_then_scale(ir, node, q, s)
        if weight.uses():
            made = ir.node("DequantizeLinear", [q, s], {"axis": axis})
            graph.insert_before(graph[0], made)
            weight.replace_all_uses_with(made.outputs[0])
    atomic.write_bytes(path, ir.to_proto(model).SerializeToString())


def quantize(
    values: NDArray[np.float32], axes: Any
) -> tuple[int, NDArray[np.int8], NDArray[np.float32]]:
    """Return the axis with the smallest squared error, the integers and the scales."""
    best: tuple[float, int, Any, Any] | None = None
    for axis in axes:
        others = tuple(i for i in range(values.ndim) if i != axis)
        most = np.abs(values).max(axis=others, keepdims=True)
        scale = np.where(most > 0, most / 127, 1).astype(np.float32)
        integers = np.rint(values / scale).astype(np.int8)
        error = float(np.square(integers * scale - values).sum())
        if best is None or error < best[0]:
            best = error, axis, integers, scale.ravel()
    assert best is not None
    return best[1:]


def _initializer(graph: Any, name: str, array: Any) -> Any:
    import onnx_ir as ir

    value = ir.val(name, const_value=ir.tensor(array, name=name))
    graph.register_initializer(value)
    return value


def _gather_then_scale(ir: Any, node: Any, q: Any, s: Any) -> None:
    """Select rows as integers, and multiply them by their scales."""
    old, graph = node.outputs[0], node.graph
    rows = ir.node("Gather", [q, node.inputs[1]], {"axis": 0})
    cast = ir.node("Cast", [rows.outputs[0]], {"to": ir.DataType.FLOAT})
    scales = ir.node("Gather", [s, node.inputs[1]], {"axis": 0})
    last = _initializer(graph, f"{q.name}_last_axis", np.array([-1]))
    wide = ir.node("Unsqueeze", [scales.outputs[0], last])
    product = ir.node("Mul", [cast.outputs[0], wide.outputs[0]])
    graph.insert_before(node, [rows, cast, scales, wide, product])
    old.replace_all_uses_with(product.outputs[0])
    graph.remove(node, safe=True)
