"""Lightning trains, saves and resumes modules that contain our layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from representer import nn

pytestmark = pytest.mark.peers
LAYERS = {
    "rkm-cifg": lambda: nn.RKMCIFG(3, 4, batch_first=True, layer_norm=True),
    "n-grams": lambda: nn.RKMLSTM(3, 4, 2, batch_first=True, filter_length=2, dropout=0.2),
    "string kernel": lambda: nn.StringKernelRNN(3, 4, batch_first=True, decay="state"),
    "kbrn": lambda: nn.KBRN(3, 4, batch_first=True),
}


def module(layer: str) -> Any:
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = LAYERS[layer]()
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.layer(x)[0][:, -1])

        def training_step(self, batch: Any) -> torch.Tensor:
            x, y = batch
            return torch.nn.functional.cross_entropy(self(x), y)

        def predict_step(self, batch: Any) -> torch.Tensor:
            return self(batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 0.02)

    torch.manual_seed(0)
    return Classifier()


def trainer(epochs: int, **options: Any) -> Any:
    import lightning

    return lightning.Trainer(
        accelerator="cpu", max_epochs=epochs, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, **options,
    )  # fmt: skip


def batches() -> DataLoader:
    x = torch.randn(24, 5, 3, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(x, (x[:, -1, 0] > 0).long()), 8)


def trained(layer: str, epochs: int, **options: Any) -> Any:
    model = module(layer)
    trainer(epochs, **options).fit(model, batches())
    return model


@pytest.mark.parametrize("layer", LAYERS)
def test_a_run_that_is_resumed_ends_like_one_that_was_never_interrupted(layer, tmp_path):
    whole, half = trained(layer, 4), module(layer)
    first = trainer(2)
    first.fit(half, batches())
    first.save_checkpoint(tmp_path / "half.ckpt")
    dropout = torch.get_rng_state()  # Lightning does not save the state of random numbers
    resumed = module(layer)
    torch.set_rng_state(dropout)
    trainer(4).fit(resumed, batches(), ckpt_path=tmp_path / "half.ckpt")
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)
    changed = [
        not torch.equal(a, b) for a, b in zip(half.parameters(), resumed.parameters(), strict=True)
    ]
    assert all(changed)


def test_a_checkpoint_is_loaded_without_unpickling_and_predicts_the_same(tmp_path):
    model = trained("n-grams", 1)
    fitted = trainer(1)
    fitted.strategy.connect(model)
    fitted.save_checkpoint(tmp_path / "model.ckpt", weights_only=True)
    saved = torch.load(tmp_path / "model.ckpt", weights_only=True)
    other = module("n-grams")
    other.load_state_dict(saved["state_dict"])
    expected = torch.cat(trainer(1).predict(model, batches()))
    torch.testing.assert_close(torch.cat(trainer(1).predict(other, batches())), expected)


@pytest.mark.parametrize("layer", LAYERS)
def test_16_bit_precision_trains_on_the_cpu(layer):
    start, end = module(layer), trained(layer, 2, precision="bf16-mixed")
    assert all(torch.isfinite(p).all() for p in end.parameters())
    assert all(
        not torch.equal(a, b) for a, b in zip(start.parameters(), end.parameters(), strict=True)
    )
    assert {p.dtype for p in end.parameters()} == {torch.float32}
