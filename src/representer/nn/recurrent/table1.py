"""L19 Table 1, as a table: the paper's name of each row and what builds it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from representer.nn.recurrent.cnn import CNN
from representer.nn.recurrent.gated_cnn import GatedCNN
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine
from representer.nn.recurrent.linear_kernel_rnn import LinearKernelRNN
from representer.nn.recurrent.ngram_lstm import NgramLSTM
from representer.nn.recurrent.rkm_cifg import RKMCIFG
from representer.nn.recurrent.rkm_lstm import RKMLSTM

TABLE1: dict[str, Callable[..., RecurrentKernelMachine]] = {
    "LSTM": NgramLSTM,
    "RKM-LSTM": RKMLSTM,
    "RKM-CIFG": RKMCIFG,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True),
    "Linear Kernel": partial(LinearKernelRNN, output_gate=False),
    "Gated CNN": GatedCNN,
    "CNN": CNN,
}
