"""Operators: the equations of ``functional``, computed fast on several backends."""

from representer.ops import edge_activation as _edge_activation
from representer.ops import gated_scan as _gated_scan
from representer.ops import kbrn_scan as _kbrn_scan
from representer.ops import kernel_activation as _kernel_activation
from representer.ops import rkm_scan as _rkm_scan
from representer.ops import separable_convolution as _separable_convolution
from representer.ops import string_scan as _string_scan
from representer.ops import tree_scan as _tree_scan
from representer.ops import walk_aggregate as _walk_aggregate
from representer.ops import walk_rounds as _walk_rounds
from representer.ops.op import Backend, Choice, Op, explain_backend, use_backend
from representer.ops.scans import of_onnx

Op.of_onnx = of_onnx
OPS: dict[str, Op] = {
    module.OP.name: module.OP
    for module in (
        _gated_scan,
        _rkm_scan,
        _string_scan,
        _tree_scan,
        _walk_aggregate,
        _walk_rounds,
        _kernel_activation,
        _edge_activation,
        _kbrn_scan,
        _separable_convolution,
    )
}

edge_activation = _edge_activation.edge_activation
gated_scan = _gated_scan.gated_scan
kbrn_scan = _kbrn_scan.kbrn_scan
kernel_activation = _kernel_activation.kernel_activation
rkm_scan = _rkm_scan.rkm_scan
separable_convolution = _separable_convolution.separable_convolution
string_scan = _string_scan.string_scan
tree_scan = _tree_scan.tree_scan
walk_aggregate = _walk_aggregate.walk_aggregate
walk_rounds = _walk_rounds.walk_rounds

__all__ = [
    "OPS", "Backend", "Choice", "Op", "edge_activation", "explain_backend", "gated_scan",
    "kbrn_scan", "kernel_activation", "rkm_scan", "separable_convolution", "string_scan",
    "tree_scan", "use_backend", "walk_aggregate", "walk_rounds",
]  # fmt: skip

__dir__ = __all__.copy  # what tab completion shows
