"""The arguments of the compiled core: twins of the structs in ``csrc/core.hpp``, field by field.

The build stores this file's digest in the library, and `core` refuses a library with another one,
which would read and write where it must not. So a struct is changed here and there together.
"""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path
from typing import Any

_INTEGERS = {"i": ctypes.c_int32, "l": ctypes.c_int64, "p": ctypes.c_void_p, "d": ctypes.c_double}


def _struct(name: str, fields: str, *before: tuple[str, Any]) -> Any:
    """Make a struct from ``"kind:name …"``; kinds are int32, int64 (l), pointer and double."""
    pairs = [field.split(":") for field in fields.split()]
    typed = [(label, _INTEGERS[code]) for code, label in pairs]
    return type(name, (ctypes.Structure,), {"_fields_": [*before, *typed]})


CellStruct = _struct(
    "CellStruct",
    "i:input_gate i:forget_gate i:output_gate i:candidate i:output i:memory i:gates i:seen",
)
ForwardStruct = _struct(
    "ForwardStruct",
    "l:time l:batch l:units l:features i:reverse i:threads i:biased p:x l:x_time l:x_batch"
    " p:input_weight p:bias p:weight p:h0 p:c0 p:gate_values p:norm p:hold p:lengths p:out p:h"
    " p:c p:gates p:cells p:fresh p:packed d:epsilon",
    ("cell", CellStruct),
)
BackwardStruct = _struct(
    "BackwardStruct",
    "l:time l:batch l:units i:reverse i:threads p:grad_output l:grad_time l:grad_batch p:grad_h"
    " p:grad_c p:out p:gates p:cells p:fresh p:weight p:h0 p:c0 p:gate_values p:norm p:hold"
    " p:lengths p:grad_z p:extra_h p:grad_c0 p:grad_fresh p:grad_normed d:epsilon",
    ("cell", CellStruct),
)
ChainStruct = _struct(
    "ChainStruct",
    "i:order i:combine i:normalized i:sums i:decay i:highway i:activation i:products i:states",
)
StringForwardStruct = _struct(
    "StringForwardStruct",
    "l:time l:batch l:units l:features i:reverse i:threads i:biased p:x p:input_weight p:bias"
    " p:decay p:weight p:h0 p:c0 p:carry p:mask p:lengths p:out p:h p:c p:products p:states"
    " p:packed",
    ("chain", ChainStruct),
)
StringBackwardStruct = _struct(
    "StringBackwardStruct",
    "l:time l:batch l:units i:reverse i:threads p:grad_output l:grad_time l:grad_batch p:grad_h"
    " p:grad_c p:products p:states p:decay p:weight p:c0 p:carry p:mask p:lengths p:grad_z"
    " p:grad_carry p:extra_h p:grad_c0 p:grad_decay",
    ("chain", ChainStruct),
)
FewStruct = _struct(
    "FewStruct",
    "i:threads p:call p:grad_output l:grad_time l:grad_batch p:grad_h p:grad_c p:grad_x p:grad_h0"
    " p:grad_c0 p:grad_input p:grad_bias p:grad_weight p:grad_decay",
)
ScanStruct = _struct(
    "ScanStruct",
    "l:time l:batch l:units i:reverse i:threads i:decay p:u p:f p:c0 p:lengths p:states p:final"
    " p:kept p:first p:grad_f",
)
GramStruct = _struct(
    "GramStruct",
    "l:rows l:columns l:features l:order i:threads i:symmetric i:trailing p:x p:y p:x_starts"
    " p:y_starts p:out d:decay",
)
WalkStruct = _struct(
    "WalkStruct",
    "l:nodes l:units l:edges l:features i:threads i:activation l:x_row l:gate_row l:output_row"
    " l:grad_row l:grad_x_row l:grad_gate_row l:targets l:first_node p:x p:edge_index p:edge_attr"
    " p:shift p:factor p:edge_gate p:source_gate p:target_gate p:out p:grad p:grad_x p:grad_edges"
    " p:grad_shift p:grad_factor p:grad_source p:grad_target p:grad_edge_gate d:scale",
)
SeparableStruct = _struct(
    "SeparableStruct",
    "l:time l:batch l:outputs l:channels l:length l:rank l:stride l:dilation i:threads p:x p:mix"
    " p:taps p:out p:grad p:grad_mix p:grad_taps",
)
RoundsStruct = _struct(
    "RoundsStruct",
    "l:nodes l:channels l:units l:edges l:features l:steps l:depth l:first i:threads i:activation"
    " i:keep p:labels p:edge_index p:edge_attr p:weight p:bias p:neighbors p:shift p:factor"
    " p:edge_gate p:out p:hidden p:tape p:grad_output p:grad_labels p:grad_edges p:grad_weight"
    " p:grad_bias p:grad_neighbors p:grad_shift p:grad_factor p:grad_edge_gate d:scale",
)
TreesStruct = _struct(
    "TreesStruct",
    "l:nodes l:order l:units l:edges l:product_row l:gate_row i:threads i:activation i:scalar"
    " p:products p:edge_index p:decay p:source_gate p:target_gate p:state_gate p:factor p:states"
    " p:gates p:grad p:grad_states p:grad_products p:grad_z p:grad_source p:grad_target"
    " p:grad_decay p:grad_factor d:scale",
)
ActivationStruct = _struct(
    "ActivationStruct",
    "l:rows l:features l:count i:green i:threads p:x p:centers p:coefficients p:grad p:out"
    " p:grad_x p:grad_centers p:grad_coefficients d:bandwidth",
)
EdgesStruct = _struct(
    "EdgesStruct",
    "l:rows l:features l:outputs l:count i:green i:threads p:x p:centers p:coefficients p:grad"
    " p:out p:grad_x p:grad_centers p:grad_coefficients",
)
KbrnStruct = _struct(
    "KbrnStruct",
    "l:time l:batch l:units l:count i:green i:threads i:of_batch l:stat_kind l:stat_time"
    " l:stat_batch p:z p:weight p:h0 p:centers p:coefficients p:line p:norm p:statistics p:lengths"
    " p:out p:h p:used p:normed p:grad_output p:grad_h p:grad_z p:grad_h0 p:grad_centers"
    " p:grad_coefficients p:grad_line p:grad_norm d:bandwidth d:epsilon",
)
AdamStruct = _struct(
    "AdamStruct",
    "l:rows l:features l:step l:window i:threads p:index p:last p:a p:b p:gradient p:weight p:first"
    " p:second d:beta1 d:beta2 d:epsilon",
)
NgramsStruct = _struct(
    "NgramsStruct",
    "l:sequences l:features l:orders l:base l:boundary p:lengths p:codes p:tables p:bits p:columns"
    " p:ids p:starts p:summed p:weights",
)
TextsStruct = _struct(
    "TextsStruct",
    "l:rows l:views l:capacity l:most i:threads p:of_views p:ends p:damped p:data p:indices"
    " p:starts d:scale",
)
FiltersStruct = _struct(
    "FiltersStruct",
    "l:series l:steps l:rows l:thresholds l:dilation i:threads p:x p:lengths p:triples p:bounds"
    " p:counts p:excess",
)
ColumnsStruct = _struct(
    "ColumnsStruct", "l:rows l:columns i:threads p:values p:indices p:starts p:gram"
)
ProductStruct = _struct("ProductStruct", "l:m l:n l:k i:threads p:a p:b p:c l:a_stride")

try:
    DIGEST = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
except OSError:  # inside an archive, which cannot contain a library either
    DIGEST = "unknown"
