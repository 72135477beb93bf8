"""L19 Table 1: the paper's name of each row, with its constructor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from representer.functional.cell import Cell
from representer.installed import installed
from representer.nn.recurrent.cells.cnn import CNN
from representer.nn.recurrent.cells.gated_cnn import GatedCNN
from representer.nn.recurrent.cells.linear_kernel_rnn import LinearKernelRNN
from representer.nn.recurrent.cells.ngram_lstm import NgramLSTM
from representer.nn.recurrent.cells.rkm_cifg import RKMCIFG
from representer.nn.recurrent.cells.rkm_lstm import RKMLSTM
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


def layer_of(name: str, cell: Cell | type[RecurrentKernelMachine]) -> type[RecurrentKernelMachine]:
    """Return the layer class of a cell, with the arguments of `RecurrentKernelMachine`.

    Args:
        name: Name of the cell; ``my-cell`` names the class ``MyCell``.
        cell: The specification, or a layer class, which is returned as it is.
    """
    if isinstance(cell, type):
        return cell
    title = name.title().replace("-", "").replace("_", "").replace(" ", "")
    return type(title, (RecurrentKernelMachine,), {"cell": cell, "__doc__": f"The cell {name}."})


TABLE1: dict[str, Callable[..., RecurrentKernelMachine]] = {
    "LSTM": NgramLSTM,
    "RKM-LSTM": RKMLSTM,
    "RKM-CIFG": RKMCIFG,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True),
    "Linear Kernel": partial(LinearKernelRNN, output_gate=False),
    "Gated CNN": GatedCNN,
    "CNN": CNN,
}


@cache
def table_with_installed() -> dict[str, Callable[..., RecurrentKernelMachine]]:
    """Return `TABLE1`, with the cells of installed packages."""
    TABLE1.update({name: layer_of(name, cell) for name, cell in installed("cells").items()})
    return TABLE1
