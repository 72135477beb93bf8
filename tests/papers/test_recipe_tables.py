"""The settings of every recipe, typed a second time from the papers and the authors' code.

A comment says where a value is printed; *code* means that only the authors' code has it, *ours*
that neither has. The first test of each recipe compares all settings that it trains with, so that
a new or changed one has to be typed here, too.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from representer.data.text import Vocabulary
from representer.nn import KBRN, KernelActivation
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer.training import generators
from representer_papers.kbdnn2018 import RECIPES as M18
from representer_papers.kbdnn2018 import charging, long_term, networks, xor
from representer_papers.kbdnn2018.networks import CHARGES, FUNCTIONS, parity
from representer_papers.rkm2019 import documents, lfp
from representer_papers.rkm2019 import language as rkm_language
from representer_papers.rkm2019.documents import DATASETS, DocumentFiles
from representer_papers.shared import language as shared_language
from representer_papers.string_graph2017 import RECIPES as L17
from representer_papers.string_graph2017 import graph_kernels, molecules, sentiment
from representer_papers.string_graph2017 import language as string_language
from representer_papers.string_graph2017.molecules import DEPTH
from representer_papers.string_graph2017.sentiment import DECAYS, build_classifier, trainer_config


def request(**options) -> Request:
    return Request(Path("data"), Path("out"), **options)


# ---- L17 Table 2, section 6.2 ----

SENTIMENT = {
    "hidden_size": 200,  # "hidden dimension d=200"
    "embedding_size": 300,  # "300-dimensional GloVe word vectors"
    "dropout": 0.35,  # "dropout probability of 0.35"
    "batch_size": 32,  # code
    "lr": 1e-3,  # code
    "lr_decay": 0.95,  # code, after every epoch
    "penalty": 1e-6,  # code, of the sum of all squared weights
    "epochs": 200,  # code
    "patience": 20,  # code
    "max_drop": 0.05,  # code
}
READOUTS = {
    ("paper", "fine"): ("last", 0.0),  # Theorem 2: h = sigma(c_n); no dropout inside the layers
    ("paper", "binary"): ("last", 0.0),
    ("authors_code", "fine"): ("sum", 0.2),  # code: relu(c_1 + c_2)
    ("authors_code", "binary"): ("sum", 0.1),
}


@pytest.mark.parametrize(("preset", "task"), READOUTS)
def test_sentiment_trains_with_the_settings_of_section_6_2(preset: str, task: str):
    place = SimpleNamespace(dataset=SimpleNamespace(name=task, task=task))
    chosen = request(preset=preset, vectors="glove.840B.300d.txt")
    config = sentiment._config(chosen, place, "gated", 3)
    readout, rnn_dropout = READOUTS[preset, task]
    assert asdict(config) == SENTIMENT | {
        "dataset": task, "cell": "gated", "seed": 3, "vectors": "glove.840B.300d",
        "preset": preset, "readout": readout, "rnn_dropout": rnn_dropout,
    }  # fmt: skip
    training = trainer_config(config, 1)
    assert (training.weight_decay, training.monitor) == (2e-6, "valid_accuracy")
    assert (training.lr, training.lr_decay, training.epochs) == (1e-3, 0.95, 200)
    assert (training.patience, training.max_drop, training.seed) == (20, 0.05, 3)


def test_the_sentiment_network_is_the_one_of_section_6_2():
    place = SimpleNamespace(dataset=SimpleNamespace(name="fine", task="fine"))
    config = sentiment._config(request(vectors="g.txt"), place, "gated", 0)
    words = SimpleNamespace(vocabulary=Vocabulary((*Vocabulary.MARKS, "good", "bad")))
    data = SimpleNamespace(inputs=words, target=SimpleNamespace(width=5))
    matrix = torch.zeros(len(words.vocabulary), 300)
    model = build_classifier(config, data, matrix)
    chosen = asdict(model.config)
    assert {name: chosen[name] for name in ("num_layers", "order", "combine", "activation")} == {
        "num_layers": 3,  # "a 3-layer network"
        "order": 2,  # "with n=2"
        "combine": "multiply",  # code
        "activation": "relu",  # code
    }
    assert model.output.in_features == 3 * 200  # "concatenate the averaged vectors"
    assert not model.embedding.weight.requires_grad  # "fixed them for simplicity"
    assert [layer.hidden_size for layer in model.layers] == [200, 200, 200]
    weights = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert weights == 540_600 + 600 * 5  # code
    assert DECAYS == {"gated": "state", "constant": 0.5}  # 0.5: code of the predecessor
    assert L17["string-sentiment"].seeds == (0, 1, 2, 3, 4)  # "across 5 independent runs"


# ---- L17 Table 1 and Fig. 3, section 6.1 ----

STRING = {
    "answer": "network",
    "cell": "string-kernel",
    "order": 1,  # "n=1"
    "num_layers": 3,  # "3-layer networks"
    "optimizer": "sgd",  # "we use SGD with an initial learning rate of 1.0"
    "lr": 35.0,  # 1.0 for a loss summed over the "unroll size of 35"
    "unroll": 35,
    "clip_norm": 5 / 35,  # code: 5, of the summed loss
    "batch_size": 32,  # code
    "epochs": 100,  # code
    "patience": 20,  # code
    "evaluation_rows": 1,  # code
    "initial": "string",  # code
    "min_count": 1,
}
SMALL_DROPOUT = {"input_dropout": 0.5, "output_dropout": 0.5, "rnn_dropout": 0.0}  # code
LARGE_DROPOUT = {"input_dropout": 0.7, "output_dropout": 0.7, "rnn_dropout": 0.1}  # code
EACH_20, EACH_30 = {"lr_decay": 0.9, "lr_decay_from": 20}, {"lr_decay": 0.95, "lr_decay_from": 30}
FIG_3 = {
    "zero": {"decay": "0", "order": 3, "combine": "add", "hidden_size": 355},  # "n-gram CNN"
    "constant": {"decay": "0.8", "hidden_size": 407},  # "lambda = 0.8"
    "learned": {"decay": "learned", "hidden_size": 407},
    "input": {"decay": "input", "hidden_size": 378},  # "depending on input x_t only"
    "state": {"decay": "state", "hidden_size": 355},  # code
}
LANGUAGE = {name: STRING | SMALL_DROPOUT | EACH_20 | own for name, own in FIG_3.items()} | {
    "large": STRING | LARGE_DROPOUT | EACH_30
    | {"decay": "state", "hidden_size": 950, "rnn_dropout": 0.0},  # "with standard dropout"
    "large-variational": STRING | LARGE_DROPOUT | EACH_30 | {"decay": "state", "hidden_size": 950},
    "large-deep": STRING | LARGE_DROPOUT
    | {"decay": "state", "hidden_size": 860, "num_layers": 4, "epochs": 200}  # "increased to 4"
    | {"lr_decay": 0.98, "lr_decay_from": 20},  # code
}  # fmt: skip
SMALL_UNITS = {"zero": 128, "constant": 137, "learned": 136, "input": 132, "state": 128}  # ours


def test_string_language_models_train_with_the_settings_of_section_6_1():
    options = {variant.name: dict(variant.options) for variant in string_language.VARIANTS}
    small = {
        f"{name}-small": LANGUAGE[name]
        | {"hidden_size": units, "input_dropout": 0.2, "output_dropout": 0.2}
        for name, units in SMALL_UNITS.items()
    }
    assert options == LANGUAGE | small
    assert L17["string-language"].datasets == ("ptb",)
    highway = shared_language.LanguageConfig(data="ptb").highway
    assert highway  # "we add highway connections within each layer"


# ---- L17 Table 3, section 6.3 ----


def test_molecules_train_with_the_settings_of_section_6_3():
    assert DEPTH == 4  # "with 4 recurrent iterations"
    assert molecules.LR_DECAY == 0.9  # "learning rate decay factor 0.9"
    assert molecules.LR == 1e-3  # code
    assert molecules.BATCH == 20  # code
    assert molecules.WIDTH == 0.05  # code, of the bins of the re-sampling
    assert molecules.BONDS == 6  # bond type (4), conjugated, in a ring
    assert (molecules.SAMPLES, molecules.DECAYS) == (100_000, 51)  # code, to 5e-6
    assert molecules.FRACTIONS == (0.88, 0.02, 0.10)  # ours
    assert (molecules.BITS, molecules.RADIUS) == (2048, 2)  # ours
    assert molecules.molecule_settings("wl", 2, 1.0, False) == {
        "network": "wl", "seed": 2, "budget": 1.0, "units": 200, "epochs": 51, "samples": 100_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "parameters"),  # code: all "0.26m"
    [
        ("wl-gated", 263_376), ("wl", 259_601), ("loopy-bp", 256_256),
        ("neural-fingerprint", 261_146), ("gine", 261_909),  # of the last one: ours
    ],
)  # fmt: skip
def test_the_networks_of_table_3_have_its_number_of_parameters(row: str, parameters: int):
    model = molecules.build_network(molecules.molecule_settings(row, 0, 1.0, False), 82)
    assert sum(p.numel() for p in model.parameters()) == parameters
    if row.startswith("wl"):
        layer = model.body.layer
        assert (layer.depth, layer.order) == (4, 2)
        assert (layer.readout, layer.decay) == (
            "last",
            "gated" if row == "wl-gated" else 1.0,
        )  # code
        assert layer.gate_scale == (10.0 if row == "wl-gated" else 1.0)  # code


def test_the_loss_of_the_molecules_is_the_squared_error_of_the_pce_itself():
    graphs = SimpleNamespace(y=torch.tensor([1.0, 2.0, 6.0]))
    store = SimpleNamespace(y=graphs.y)
    data = SimpleNamespace(store=store, train=np.arange(3), valid=np.arange(1))
    task = molecules.training_task(molecules.molecule_settings("wl", 0, 1.0, False), data)
    loss, weight = task.loss(lambda _: torch.zeros(3), graphs)
    assert float(loss) == pytest.approx((1 + 4 + 36) / 3)
    assert weight == 3


# ---- L17 section 3: no table in the paper, so the protocol is ours ----


def test_graph_kernels_are_selected_and_tested_by_nested_folds():
    assert graph_kernels.OUTER == 10
    assert graph_kernels.COSTS == (1.0, 10.0, 100.0, 1000.0)
    assert graph_kernels.STEPS == 100_000
    assert graph_kernels.LARGE == 500
    chosen = graph_kernels
    assert (chosen.EPOCHS, chosen.BATCH, chosen.UNITS, chosen.LR, chosen.VALID) == (
        200, 32, 32, 5e-3, 9,
    )  # fmt: skip
    model = graph_kernels.GraphClassifier("wl-network", 7, 2, 32)
    assert model.dropout.p == 0.5


# ---- L19 Table 2, section 6 ----

DOCUMENTS = {
    "answer": "network",
    "hidden_size": 300,  # "set the dimensions of all hidden units to 300"
    "embedding_size": 300,  # "300-dimensional GloVe"
    "dropout": 0.5,  # code
    "lr": 1e-3,  # code
    "tokenizer": "leam",  # "the same preprocessing procedure as in [34]"
    "min_count": 1,  # code
    "batch_size": 16,  # code
    "max_steps": 40_001,  # code
    "evaluate_every": 500,  # code
    "epochs": 100_000, "patience": 0,  # the steps end the training
    "average_weights": False, "monitor": "accuracy",  # code: the test at the best validation
    "valid_fraction": 0.05,  # ours
    "num_layers": 1, "bidirectional": False,  # "single-layer and unidirectional"
    "layer_norm": None,  # on where the cell has a state: "after the computation of the cell state"
    "vectors": "glove.txt",
    "initialization": "paper",
}  # fmt: skip
OF_PRESETS = {
    "paper": {
        "max_length": 300,  # code: documents are cut there
        "min_length": 1,
        "pooling": "mean",  # "mean pooling across time"
        "filter_padding": "causal",  # (12)
        "candidate_bias": False,  # (8)
        "learn_static_gates": False,  # "we set sigma_i^2 = sigma_f^2 = 0.5"
        "clip_value": 0.0,
        "forget_bias": 0.0,
    },
    "authors_code": {
        "max_length": 96, "min_length": 6, "pooling": "padded_mean", "filter_padding": "same",
        "candidate_bias": True, "learn_static_gates": True, "clip_value": 1.0, "forget_bias": 1.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("preset", OF_PRESETS)
def test_documents_train_with_the_settings_of_section_6(preset: str):
    place = DocumentFiles(DATASETS["yahoo"], Path("train.csv"), Path("test.csv"), "2,3")
    chosen = request(preset=preset, vectors="glove.txt")
    # the static gates are of linear kernels alone, the forget gate of the others
    for cell in ("linear-kernel", "rkm-lstm"):
        config = documents._config(chosen, place, Path("out"), cell, 3, 7)
        expected = DOCUMENTS | OF_PRESETS[preset] | {"cell": cell, "filter_length": 3, "seed": 7}
        if cell == "rkm-lstm":
            expected["learn_static_gates"] = False
        assert {name: getattr(config, name) for name in expected} == expected
    assert documents.FILTER_LENGTHS == (1, 3)  # Table 2


def test_the_authors_code_pads_to_a_length_for_each_set_of_documents():
    lengths = {dataset.name: dataset.padded_length for dataset in DATASETS.values()}
    assert lengths == {"ag_news": 128, "dbpedia": 128, "yahoo": 96, "yelp": 128}  # code
    columns = {dataset.name: dataset.text_columns for dataset in DATASETS.values()}
    assert columns == {"ag_news": 2, "dbpedia": 2, "yahoo": 3, "yelp": 1}


# ---- L19 Table 3 ----

AWD = {  # footnote 5: the official codebase, "all other hyperparameters the same as the default"
    "answer": "network", "embedding_size": 400, "hidden_size": 1150, "num_layers": 3,
    "locked": True, "input_dropout": 0.4, "layer_dropout": 0.25, "output_dropout": 0.4,
    "embedding_dropout": 0.1, "weight_dropout": 0.5, "activation_penalty": 2.0,
    "slowness_penalty": 1.0, "initial": "uniform", "batch_size": 20, "unroll": 70,
    "variable_unroll": True, "epochs": 500, "optimizer": "nt-asgd", "lr": 30.0,
    "weight_decay": 1.2e-6, "clip_norm": 0.25, "patience": 0, "evaluation_rows": 10,
}  # fmt: skip
WIKITEXT = {"input_dropout": 0.65, "layer_dropout": 0.2, "batch_size": 80, "epochs": 750}
SMALL_RKM = {  # ours
    "hidden_size": 200, "embedding_size": 100, "layer_norm": True, "optimizer": "adam", "lr": 3e-3,
}  # fmt: skip


@pytest.mark.parametrize(("text", "own"), [("ptb", {}), ("wikitext-2", WIKITEXT)])
def test_rkm_language_models_train_with_the_defaults_of_awd_lstm(text: str, own: dict):
    expected = {}
    for cell in ("lstm", "rkm-lstm", "rkm-cifg", "linear-kernel-gated"):  # Table 3
        options = AWD | own | {"cell": cell}
        # ours: without layer norm the RKM-LSTM diverges
        expected[cell] = options | {"layer_norm": cell == "rkm-lstm"}
        expected[f"{cell}-small"] = options | SMALL_RKM
    assert {v.name: dict(v.options) for v in rkm_language.VARIANTS[text]} == expected


# ---- L19 Table 4 ----


def test_neural_signals_train_with_the_settings_of_table_4():
    signals = lfp.SIGNAL_SETS["arithmetic"]
    config = lfp.config_of(signals, "rkm-lstm", request(), 36, 1)
    expected = {
        "answer": "network", "filters": "wavelet", "filter_length": 40,  # "(n = 40)-gram filters"
        "hidden_size": 30,  # "the number of filters in each model is 30"
        "folds": 0,  # "leave-one-out cross-validation"
        "pooling": "mean", "average_weights": False, "seed": 1, "cell": "rkm-lstm",
        "stride": 10, "lr": 5e-3, "dropout": 0.5, "channel_dropout": 0.2, "augment": True,  # ours
        "epochs": 25, "patience": 10,  # ours
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected
    syncnet = lfp.config_of(signals, "syncnet", request(), 36, 1)
    assert (syncnet.stride, syncnet.pooling, syncnet.pool_length) == (1, "flatten", 40)  # code
    group = lfp.config_of(lfp.SIGNAL_SETS["alcoholism"], "rkm-lstm", request(), 16, 1)
    assert (group.standardize, group.valid_fraction, group.epochs) == ("window", 0.0, 40)  # ours
    plain = {name for name, signals in lfp.SIGNAL_SETS.items() if not signals.align}
    assert plain == {"synthetic", "arithmetic", "alcoholism", "condition"}
    assert lfp.RATE == 160.0  # ours; the paper's mice: 1,000 Hz
    assert lfp.SYNTHETIC == {"subjects": 8, "windows": 500, "seed": 0}  # ours
    assert lfp.LEAST_FOLDS == 8  # ours


# ---- M18 ----


def adam_step(
    parameters: list[torch.Tensor], moments: list, loss: torch.Tensor, update: int, lr: float
) -> None:
    """Make one step of Adam as printed by its authors, with their defaults."""
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for p, g, (m, v) in zip(parameters, gradients, moments, strict=True):
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            p -= lr * (m / (1 - 0.9**update)) / ((v / (1 - 0.999**update)).sqrt() + 1e-8)


def zeros_like(parameters: list[torch.Tensor]) -> list:
    return [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]


@pytest.fixture
def losses(monkeypatch) -> list[float]:
    """Record the losses of a training, whose scale does not change the steps of Adam."""
    recorded: list[float] = []
    backward = torch.Tensor.backward

    def record(loss: torch.Tensor) -> None:
        recorded.append(loss.item())
        backward(loss)

    monkeypatch.setattr(torch.Tensor, "backward", record)
    return recorded


@pytest.mark.parametrize("penalty", [0.0, 0.00075, 0.5])
def test_parity_is_trained_as_in_fig_2(penalty: float, losses: list[float]):
    assert xor.PENALTIES == (0.0, 0.00075)  # code
    assert (xor.UPDATES, xor.CENTERS, xor.BITS) == (1_000_000, (50, 100, 300), (2, 4))
    result = xor.train_parity(xor.ParitySetting(2, 50, penalty, 4, 5))
    with generators.initializing(4):  # code: all drawn from a truncated normal distribution
        f = KernelActivation(1, 50, init="random", green="abs")  # "g(z) = |z|"
        linear = torch.nn.Linear(2, 1)
        for p in (linear.weight, linear.bias):
            torch.nn.init.trunc_normal_(p, 0.0, 1.0, -2.0, 2.0)
    rows, targets = parity(2)
    own = [*f.parameters(), *linear.parameters()]
    moments = zeros_like(own)
    for update in range(1, 6):
        a = rows @ linear.weight.T + linear.bias
        y = ((a - f.centers).abs() * f.coefficients).sum(1)
        loss = ((y - targets) ** 2).sum() / 4 + penalty * f.coefficients.abs().sum()
        assert losses[update - 1] == pytest.approx(loss.item(), rel=1e-3)
        adam_step(own, moments, loss, update, 0.01)  # code
    sums = (rows @ linear.weight.T + linear.bias)[:, 0]
    assert result["sums"] == pytest.approx(sums.tolist(), abs=2e-4)
    y = ((sums[:, None] - f.centers).abs() * f.coefficients).sum(1)
    assert result["error"] == pytest.approx(((y - targets) ** 2).mean().item(), rel=1e-2)


def test_the_charging_problem_is_trained_as_in_fig_3(monkeypatch, losses: list[float]):
    assert (charging.UPDATES, charging.BATCH, charging.TEST) == (10_000, 500, 25_000)  # printed
    assert CHARGES == {"paper": (0, 9), "authors_code": (1, 10)}
    monkeypatch.setattr(charging, "BATCH", 20)
    result = charging.train_charging(charging.ChargingSetting("kbrn", "paper", 3, 4, 10))
    with generators.initializing(3):
        network = networks.charging_network("kbrn")
    layer = network.layer
    assert isinstance(layer, KBRN)
    f = layer.activation()
    assert f.centers.shape == (1, 20)  # "d=20 centers"
    assert layer.get_parameter("weight_ih_l0").item() == 1  # code
    assert layer.get_parameter("weight_hh_l0").item() == 1  # code
    own = list(network.parameters())
    moments = zeros_like(own)
    for update in range(1, 5):
        draw = generators.generator(3, "charging", update)
        x, y = charging.charging(20, "paper", draw)
        assert x.shape == (30, 20, 1)  # "of length L=30"
        loss = ((torch.sigmoid(layer(x)[0][..., 0]) - y) ** 2).sum() / 20
        assert losses[update - 1] == pytest.approx(loss.item(), rel=1e-3)
        adam_step(own, moments, loss, update, 1e-3)  # "Adam with lambda = 0.001"
    grid = torch.linspace(-10, 10, 201)
    expected = ((grid[:, None] - f.centers[0]).abs() * f.coefficients[0]).sum(1)
    assert [y for _, y in result["function"]] == pytest.approx(expected.tolist(), abs=1e-4)


def test_the_first_two_bits_are_learned_as_in_figs_5_and_6(tmp_path, losses: list[float]):
    chosen = long_term
    assert (chosen.UPDATES, chosen.BATCH, chosen.EPOCH) == (100_000, 500, 10)  # 10: code
    assert chosen.SHORT == (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)  # Fig. 5
    assert chosen.LONG == (60, 80, 100, 150, 200)  # Fig. 6
    assert chosen.SPAN == 4.0  # Fig. 4
    assert (chosen.ENOUGH, chosen.SOLVED, chosen.CHECK) == (0.99, 0.995, 25_000)  # 0.99: code
    assert pytest.approx(0.995 + 3 * math.sqrt(0.995 * 0.005 / 25_000)) == chosen.SURE  # ours
    assert M18["kbrn-long-term"].seeds == (0, 1, 2, 3, 4)  # "5 different runs"
    assert FUNCTIONS == {"or": (0, 1, 1, 1), "and": (0, 0, 0, 1), "xor": (0, 1, 1, 0),
                         "iff": (1, 0, 0, 1)}  # fmt: skip
    network = networks.long_term_network("kbrn", "paper")
    assert network.layer.hidden_size == 20  # "20 hidden units"
    assert network.layer.activation().centers.shape == (20, 100)  # "d=100"
    assert network.layer.normalize  # "the described normalization"
    for name in ("paper", "authors_code"):
        lstm = networks.long_term_network("lstm-sigmoid", name)
        assert lstm.squashes == (name == "paper")  # code: no sigmoid
    setting = chosen.LongTermSetting("iff", 3, "kbrn", "paper", 5, 6, tiny=True)
    with RunFolder(tmp_path / "run") as folder:
        result = chosen.train_long_term(folder, setting)
    with generators.initializing(5):
        network = networks.long_term_network("kbrn", "paper", 4, 5)
    own = [p for p in network.parameters() if p.requires_grad]
    moments = zeros_like(own)
    for update in range(1, 7):
        x, y = chosen._batch(setting, "train", update, 500)
        loss = ((network(x) - y) ** 2).sum() / 500
        assert losses[update - 1] == pytest.approx(loss.item(), rel=1e-3)
        adam_step(own, moments, loss, update, 1e-3)
    grid = torch.linspace(-4, 4, 161)
    values = network.layer.activation()(grid[:, None].expand(-1, 4)).T[:, ::2]
    assert torch.tensor(result["functions"]).numpy() == pytest.approx(
        values.detach().numpy(), abs=2e-3
    )
