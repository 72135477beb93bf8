"""Layers in the manner of torch.nn, each unit of which compares its input with a reference."""

from representer.nn.recurrent.cnn import CNN
from representer.nn.recurrent.gated_cnn import GatedCNN
from representer.nn.recurrent.linear_kernel_rnn import LinearKernelRNN
from representer.nn.recurrent.ngram_lstm import NgramLSTM
from representer.nn.recurrent.ran import RAN
from representer.nn.recurrent.rkm import RKM
from representer.nn.recurrent.rkm_cifg import RKMCIFG
from representer.nn.recurrent.rkm_lstm import RKMLSTM
from representer.nn.recurrent.state import (
    RecurrentState,
    StringMassState,
    StringState,
    WindowState,
)
from representer.nn.recurrent.string_kernel_rnn import StringKernelRNN
from representer.nn.recurrent.table1 import TABLE1
from representer.nn.regularization.drop_connect import DropConnect, drop_connect
from representer.nn.regularization.embedding_dropout import EmbeddingDropout
from representer.nn.regularization.locked_dropout import LockedDropout

__all__ = [
    "CNN",
    "RAN",
    "RKM",
    "RKMCIFG",
    "RKMLSTM",
    "TABLE1",
    "DropConnect",
    "EmbeddingDropout",
    "GatedCNN",
    "LinearKernelRNN",
    "LockedDropout",
    "NgramLSTM",
    "RecurrentState",
    "StringKernelRNN",
    "StringMassState",
    "StringState",
    "WindowState",
    "drop_connect",
]
