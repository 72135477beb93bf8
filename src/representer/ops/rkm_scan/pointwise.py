# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""The arithmetic of one step of a cell and of its gradient on some units, for Triton kernels.

``reference.py`` has the equations. A tuple of gates has the order of ``cell.gates``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from representer.ops.steps import expm1, slope, value


@triton.jit
def load(x, at, is_unit, ACC: tl.constexpr):
    """Return the entries of x at some units, 0 where there is no unit."""
    return tl.load(x + at, mask=is_unit, other=0.0).to(ACC)


@triton.jit
def constants(static, norm, unit, units, is_unit, ACC: tl.constexpr):
    """Return the static input and forget gates, gain and bias of the norm; 0 for those absent."""
    zero = tl.zeros(unit.shape, ACC)
    i, f, gain, bias = zero, zero, zero, zero
    if static is not None:
        i, f = load(static, unit, is_unit, ACC), load(static + units, unit, is_unit, ACC)
    if norm is not None:
        gain, bias = load(norm, unit, is_unit, ACC), load(norm + units, unit, is_unit, ACC)
    return i, f, gain, bias


@triton.jit
def normalize(x, is_unit, units, EPS: tl.constexpr):
    """Return x normalized over its units, and 1 / their standard deviation."""
    centered = tl.where(is_unit, x - tl.sum(tl.where(is_unit, x, 0.0), 0) / units, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, 0) / units + EPS)
    return centered * scale, scale


@triton.jit
def memory_of(h, c, CELL: tl.constexpr):
    """Return m_{t-1} from the emission and the cell."""
    if CELL.memory == "output":
        c = h
    elif CELL.memory == "expm1":
        c = expm1(c)
    return c


@triton.jit
def memory_before(h_before, c_before, here, is_unit, CELL: tl.constexpr, ACC: tl.constexpr):
    """Return m_{t-1} from the emissions or the cells before every step, whichever are given."""
    if h_before is None:
        memory = memory_of(0.0, load(c_before, here, is_unit, ACC), CELL)
    else:
        memory = load(h_before, here, is_unit, ACC)
    return memory


@triton.jit
def fresh_cell(a, h, c, fixed, CELL: tl.constexpr):
    """Return the gates of a step, from their pre-activations, and the cell before its norm."""
    memory = memory_of(h, c, CELL)
    PHI: tl.constexpr = CELL.candidate  # Triton 3.6 takes no attribute as a constant
    candidate = value(a[0], PHI)
    gates = (candidate,)
    i, f, _, _ = fixed
    if CELL.input_gate == "dynamic":
        i = tl.sigmoid(a[1])
        gates = gates + (i,)
    if CELL.forget_gate == "dynamic":
        f = tl.sigmoid(a[2 if CELL.input_gate == "dynamic" else 1])
        gates = gates + (f,)
    if CELL.input_gate == "coupled":
        fresh = candidate + f * (memory - candidate)
    else:
        fresh = i * candidate
        if CELL.forget_gate != "none":
            fresh += f * memory
    if CELL.output_gate:
        gates = gates + (tl.sigmoid(a[len(CELL.gates) - 1]),)
    return gates, fresh


@triton.jit
def emission(gates, c, CELL: tl.constexpr):
    """Return the emission of a cell."""
    PSI: tl.constexpr = CELL.output
    y = value(c, PSI)
    if CELL.output_gate:
        y = y * gates[len(CELL.gates) - 1]
    return y


@triton.jit
def advance(
    a, h, c, fixed, is_unit, units, CELL: tl.constexpr, NORM: tl.constexpr, EPS: tl.constexpr
):
    """Return the gates of a step, the cell before its norm, the emission, and the cell after it.

    ``a`` are the pre-activations, ``fixed`` the ``constants``.
    """
    gates, fresh = fresh_cell(a, h, c, fixed, CELL)
    new = fresh
    if NORM:
        normed, _ = normalize(fresh, is_unit, units, EPS)
        new = normed * fixed[2] + fixed[3]
    return gates, fresh, emission(gates, new, CELL), new


@triton.jit
def through_emission(gates, c, e, g, CELL: tl.constexpr):
    """Return the gradients of the cell, of which g is one part, and of the output gate's input."""
    PSI: tl.constexpr = CELL.output
    y = value(c, PSI)
    of_cell, d_output = e * slope(c, y, PSI), 0.0
    if CELL.output_gate:
        o = gates[len(CELL.gates) - 1]
        of_cell = of_cell * o
        d_output = e * y * o * (1 - o)
    return g + of_cell, d_output


@triton.jit
def through_gates(gates, memory, g, d_output, fixed, CELL: tl.constexpr):
    """Return the gradients of the pre-activations, and the parts of g for the step before."""
    PHI: tl.constexpr = CELL.candidate
    candidate = gates[0]
    i, f, _, _ = fixed
    if CELL.forget_gate == "dynamic":
        f = gates[2 if CELL.input_gate == "dynamic" else 1]
        replaced = memory - candidate if CELL.input_gate == "coupled" else memory
        d_forget = g * replaced * f * (1 - f)
    if CELL.input_gate == "coupled":
        i = 1 - f
    elif CELL.input_gate == "dynamic":
        i = gates[1]
    d = (g * i * slope(candidate, candidate, PHI),)
    if CELL.input_gate == "dynamic":
        d = d + (g * candidate * i * (1 - i),)
    if CELL.forget_gate == "dynamic":
        d = d + (d_forget,)
    if CELL.output_gate:
        d = d + (d_output,)
    to_h, to_c = tl.zeros(g.shape, g.dtype), tl.zeros(g.shape, g.dtype)
    if CELL.forget_gate != "none":
        if CELL.memory == "output":
            to_h = g * f
        elif CELL.memory == "cell":
            to_c = g * f
        else:
            to_c = g * f * (memory + 1)
    return d, to_h, to_c


@triton.jit
def retreat(
    gates, emitted, memory, e, g, fixed, is_unit, units, CELL: tl.constexpr, NORM: tl.constexpr,
    EPS: tl.constexpr,
):  # fmt: skip
    """Return the gradients of a step from those of the emission, e, and of the cell, g.

    ``emitted`` is the cell before its norm. Returned are the gradients of the pre-activations, of
    the cell after and before its norm, and the parts of g that go to the emission and the cell
    before this step without a product.
    """
    if NORM:
        normed, scale = normalize(emitted, is_unit, units, EPS)
        emitted = normed * fixed[2] + fixed[3]
    g, d_output = through_emission(gates, emitted, e, g, CELL)
    g_normed = g
    if NORM:
        g = tl.where(is_unit, g * fixed[2], 0.0)
        centered = g - tl.sum(g, 0) / units
        g = (centered - normed * (tl.sum(g * normed, 0) / units)) * scale
    d, to_h, to_c = through_gates(gates, memory, g, d_output, fixed, CELL)
    return d, g_normed, g, to_h, to_c
