"""skorch trains models as estimators of scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from representer import nn
from representer.models import (
    SequenceClassifierConfig,
    SequenceNetwork,
    SignalClassifierConfig,
    SignalNetwork,
)

pytestmark = pytest.mark.peers
SIGNAL = SignalClassifierConfig(num_channels=2, num_classes=2, sampling_rate=50, hidden_size=8)
TEXT = SequenceClassifierConfig(
    vocabulary_size=10, num_classes=2, embedding_size=8, hidden_size=8, head_size=8, dropout=0.0
)


def signals() -> tuple[np.ndarray, np.ndarray]:
    """Return 40 recordings, whose mean tells the class."""
    labels = np.arange(40) % 2
    noise = np.random.randn(40, 2, 60).astype("float32")
    return 0.3 * noise + labels[:, None, None].astype("float32"), labels


def estimator(model=SignalNetwork, config=SIGNAL, **options):
    from skorch import NeuralNetClassifier

    return NeuralNetClassifier(
        model, module__config=config, criterion=torch.nn.CrossEntropyLoss, lr=0.1, max_epochs=15,
        optimizer=torch.optim.Adam, optimizer__lr=0.02, verbose=0, **options,
    )  # fmt: skip


def test_a_model_is_trained_searched_cloned_and_pickled_as_an_estimator():
    X, y = signals()
    search = GridSearchCV(estimator(train_split=None), {"optimizer__lr": [1e-6, 0.02]}, cv=2)
    search.fit(X, y)
    assert search.best_params_ == {"optimizer__lr": 0.02}
    assert search.score(X, y) > 0.9
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))
    assert not hasattr(clone(again), "module_")  # not fitted


def test_a_model_of_several_inputs_takes_a_dictionary():
    tokens = torch.randint(1, 10, (60, 7))
    labels = (tokens[:, 0] > 5).long()
    lengths = torch.full((60,), 7)
    X = {"tokens": tokens, "lengths": lengths}
    model = estimator(SequenceNetwork, TEXT).fit(X, labels)
    assert model.score(X, labels) > 0.9
    logits = model.module_(tokens, lengths).detach()
    np.testing.assert_array_equal(model.predict(X), logits.argmax(1).numpy())


def test_saved_parameters_continue_in_another_estimator(tmp_path):
    X, y = signals()
    first = estimator().fit(X, y)
    first.save_params(f_params=tmp_path / "model.safetensors", use_safetensors=True)
    second = estimator().initialize()
    second.load_params(f_params=tmp_path / "model.safetensors", use_safetensors=True)
    np.testing.assert_array_equal(second.predict_proba(X), first.predict_proba(X))


@pytest.mark.parametrize("layer", [nn.RKMCIFG(3, 4), nn.StringKernelRNN(3, 4), nn.KBRN(3, 4)])
def test_predictions_of_a_bare_layer_are_its_outputs_without_the_state(layer):
    from skorch import NeuralNetRegressor

    X = np.random.randn(6, 5, 3).astype("float32")
    net = NeuralNetRegressor(layer, batch_size=6).initialize()
    np.testing.assert_array_equal(net.predict(X), layer(torch.from_numpy(X))[0].detach().numpy())
