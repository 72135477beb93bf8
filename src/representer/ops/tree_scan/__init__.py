"""The recurrence of tree-kernel networks, on every backend."""

from __future__ import annotations

from torch import Tensor

from representer import functional
from representer.ops.op import Backend, Op
from representer.ops.table import Table
from representer.ops.tree_scan import reference
from representer.ops.tree_scan.reference import Operands, Results, check, sizes


def tree_scan(
    products: Tensor,
    edge_index: Tensor,
    *,
    decay: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    state_gate: Tensor | None = None,
    factor: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
    backend: str | None = None,
) -> Tensor:
    r"""Sum over the chains of nodes below each node of trees.

    .. math::
        c_1[v] &= p_1[v] + \sum_{e = (u, v)} \lambda_e c_1[u] \\
        c_j[v] &= \sum_{e = (u, v)} \lambda_e c_j[u]
            + p_j[v] \sum_{e = (u, v)} a_{e,j} c_{j-1}[u] \\
        \lambda_e &= s \, \sigma(\text{source}_u + \text{target}_v + U \phi(c_n[u]))

    over the children u of v, or with λ given. On a CPU two runs give the same bits.

    Args:
        products: p.
        edge_index: Child and parent of each edge.
        decay: λ; None for a gate.
        source_gate: The gate's term of the child; None for none.
        target_gate: The gate's term of the parent; None without a gate.
        state_gate: U, the gate's weight of the state of the child; None for none.
        factor: a; None for 1.
        scale: s, the value of an open gate.
        activation: φ, a name of ``functional.NONLINEARITIES``.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - products ``(N, n, H)``; edge_index ``(2, E)``; decay ``()`` or ``(H,)``; source_gate and
          target_gate ``(N, H)``; state_gate ``(H, H)``; factor ``(E, n - 1, H)``
        - returns ``(N, n, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or there is neither a decay nor a gate, or both.
        ArgumentError: If an edge joins a node that does not exist, a node has two parents, or the
            edges form a cycle.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (2),
        of which this is the counterpart for trees.
        Tai et al., Improved Semantic Representations From Tree-Structured Long Short-Term Memory
        Networks, ACL 2015, (2)-(8).
    """
    p = Operands(
        products, edge_index, decay, source_gate, target_gate, state_gate, factor, float(scale),
        activation,
    )  # fmt: skip
    results = OP(p, backend)
    return results if isinstance(results, Tensor) else results[0]  # the definition returns states


OP = Op("tree_scan", tree_scan, functional.tree_scan)
OP.register(Table(Operands, Results, sizes, check))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
