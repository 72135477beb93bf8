"""Hugging Face's Trainer trains, evaluates and saves modules that contain our layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from representer import nn

pytestmark = pytest.mark.peers
LAYERS = {
    "h, c": lambda: nn.RKMCIFG(3, 4, 2, batch_first=True, dropout=0.1),
    "h, c, window": lambda: nn.RKMLSTM(3, 4, batch_first=True, filter_length=2),
    "c": lambda: nn.RAN(3, 4, batch_first=True),
    "window": lambda: nn.CNN(3, 4, batch_first=True, filter_length=3),
    "string kernel": lambda: nn.StringKernelRNN(3, 4, batch_first=True),
    "kbrn": lambda: nn.KBRN(3, 4, batch_first=True),
}


class Classifier(torch.nn.Module):
    """A layer, a head and the loss, as Trainer expects it, with the state among the outputs."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = LAYERS[layer]()
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
        output, state = self.layer(x)
        logits = self.head(output[:, -1])
        result = {"logits": logits, "state": state}
        if labels is not None:
            result = {"loss": torch.nn.functional.cross_entropy(logits, labels), **result}
        return result


def rows(count: int = 12) -> list[dict[str, Any]]:
    x = torch.randn(count, 5, 3, generator=torch.Generator().manual_seed(1))
    return [{"x": one, "labels": int(one[-1, 0] > 0)} for one in x]


def trainer(model: torch.nn.Module, folder: Any, **options: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    chosen = {"num_train_epochs": 2, "save_strategy": "epoch"} | options
    arguments = TrainingArguments(
        str(folder), use_cpu=True, per_device_train_batch_size=4, per_device_eval_batch_size=12,
        learning_rate=0.02, report_to="none", disable_tqdm=True, **chosen,
    )  # fmt: skip
    return Trainer(model, arguments, train_dataset=rows(), eval_dataset=rows())


def flat(state: Any) -> list[np.ndarray]:
    if isinstance(state, tuple):
        return [array for part in state for array in flat(part)]
    return [np.asarray(state.detach() if isinstance(state, torch.Tensor) else state)]


@pytest.mark.parametrize("layer", LAYERS)
def test_predictions_are_the_outputs_of_the_model_with_a_state_of_its_type(layer, tmp_path):
    model = Classifier(layer)
    use = trainer(model, tmp_path, save_strategy="no")
    assert use.train().training_loss > use.evaluate()["eval_loss"]
    predicted = use.predict(rows())
    expected = model.eval()(torch.stack([row["x"] for row in rows()]))
    logits, state = predicted.predictions
    np.testing.assert_allclose(logits, expected["logits"].detach().numpy(), rtol=1e-5, atol=1e-6)
    assert type(state) is type(expected["state"])
    assert state._fields == expected["state"]._fields
    for received, computed in zip(flat(state), flat(expected["state"]), strict=True):
        np.testing.assert_allclose(received, computed, rtol=1e-5, atol=1e-6)
    assert predicted.label_ids.tolist() == [row["labels"] for row in rows()]


def test_batches_of_predictions_are_joined(tmp_path):
    model = Classifier("h, c, window")
    use = trainer(model, tmp_path)
    whole = use.predict(rows()).predictions[0]
    use.args.per_device_eval_batch_size = 5  # the last batch has two rows
    np.testing.assert_allclose(use.predict(rows()).predictions[0], whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_checkpoint_of_safetensors_resumes_the_run(layer, tmp_path):
    whole = Classifier(layer)
    trainer(whole, tmp_path / "run").train()
    resumed = Classifier(layer)
    trainer(resumed, tmp_path / "run").train(str(tmp_path / "run/checkpoint-3"))
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)
    half = load_file(tmp_path / "run/checkpoint-3/model.safetensors")
    assert set(half) == set(whole.state_dict())
    assert any(not torch.equal(half[name], last) for name, last in whole.state_dict().items())


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("layer", LAYERS)
def test_16_bit_precision_trains_on_the_cpu(layer, precision, tmp_path):
    model = Classifier(layer)
    start = {name: weight.clone() for name, weight in model.named_parameters()}
    use = trainer(model, tmp_path, save_strategy="no", **{precision: True})
    use.train()
    for name, weight in model.named_parameters():
        assert torch.isfinite(weight).all(), name
        assert not torch.equal(weight, start[name]), name
    logits = use.predict(rows()).predictions[0]
    exact = model.eval()(torch.stack([row["x"] for row in rows()]))["logits"].detach().numpy()
    np.testing.assert_allclose(logits, exact, atol=0.05)  # of 16 bits, 8 in bfloat16's mantissa


@pytest.mark.parametrize("layer", LAYERS)
def test_activation_checkpointing_gives_the_same_weights(layer, tmp_path):
    from transformers import PretrainedConfig, PreTrainedModel
    from transformers.modeling_layers import GradientCheckpointingLayer

    calls = []

    class Block(GradientCheckpointingLayer):
        def __init__(self) -> None:
            super().__init__()
            self.layer = LAYERS[layer]()

        def forward(self, x: torch.Tensor) -> Any:
            calls.append(torch.is_grad_enabled())
            return self.layer(x)

    class Model(PreTrainedModel):
        config_class = PretrainedConfig
        supports_gradient_checkpointing = True

        def __init__(self, config: PretrainedConfig) -> None:
            super().__init__(config)
            torch.manual_seed(0)
            self.classifier = Classifier(layer)
            self.classifier.layer = Block()
            self.post_init()

        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
            return self.classifier(x, labels)

    trained = []
    for checkpointing in (False, True):
        calls.clear()
        model = Model(PretrainedConfig())
        use = trainer(model, tmp_path, save_strategy="no", activation_checkpointing=checkpointing)
        use.train()
        trained.append((model.state_dict(), len(calls)))
    (plain, few), (checkpointed, many) = trained
    assert many == 2 * few  # each forward pass runs again in the backward pass
    torch.testing.assert_close(checkpointed, plain)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_pretrained_model_is_made_on_the_meta_device_and_filled_from_its_file(layer, tmp_path):
    from transformers import PretrainedConfig, PreTrainedModel

    class Model(PreTrainedModel):
        config_class = PretrainedConfig

        def __init__(self, config: PretrainedConfig) -> None:
            super().__init__(config)
            self.layer = LAYERS[layer]()
            self.activation = nn.KernelActivation(4)
            self.post_init()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.activation(self.layer(x)[0])

    model, x = Model(PretrainedConfig()), torch.stack([row["x"] for row in rows()])
    model(x)  # KBRN counts its batches
    model.eval().save_pretrained(tmp_path)
    loaded = Model.from_pretrained(tmp_path)
    assert not loaded.training
    torch.testing.assert_close(loaded(x), model(x), rtol=0, atol=0)
