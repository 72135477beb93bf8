"""L19 Table 1, as a table: the paper's name of each row and what builds it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from representer.nn.recurrent.cells.cnn import CNN
from representer.nn.recurrent.cells.gated_cnn import GatedCNN
from representer.nn.recurrent.cells.linear_kernel_rnn import LinearKernelRNN
from representer.nn.recurrent.cells.ngram_lstm import NgramLSTM
from representer.nn.recurrent.cells.rkm_cifg import RKMCIFG
from representer.nn.recurrent.cells.rkm_lstm import RKMLSTM
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine

TABLE1: dict[str, Callable[..., RecurrentKernelMachine]] = {
    "LSTM": NgramLSTM,
    "RKM-LSTM": RKMLSTM,
    "RKM-CIFG": RKMCIFG,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True),
    "Linear Kernel": partial(LinearKernelRNN, output_gate=False),
    "Gated CNN": GatedCNN,
    "CNN": CNN,
}
