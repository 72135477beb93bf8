"""Models of the gallery, each fitted once, on data that the package makes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from representer import nn
from representer.data.molecules.assembled import assembled_molecules
from representer.data.text.code_lines import code_lines
from representer.estimators import MoleculeRegressor, TextClassifier


@cache
def text_model() -> tuple[Any, list[str], list[str]]:
    """Return a classifier of lines of code, and lines and labels that it has not read."""
    table = code_lines(count=10_000)
    model = TextClassifier(epochs=6, random_state=0, verbose=0)
    model.fit(table.texts[:8000], table.labels[:8000])
    return model, table.texts[8000:], table.labels[8000:]


@cache
def adding() -> tuple[Any, Any, torch.Tensor]:
    """Return a cell and a read-out that sum two marked numbers of 50, and one example."""
    torch.manual_seed(0)
    layer, readout = nn.RKMCIFG(2, 32, batch_first=True), torch.nn.Linear(32, 1)
    parameters = [*layer.parameters(), *readout.parameters()]
    optimizer = torch.optim.Adam(parameters, 5e-3)
    for _ in range(700):
        values, marks = torch.rand(32, 50), torch.zeros(32, 50)
        marks.scatter_(1, torch.rand(32, 50).argsort(1)[:, :2], 1.0)
        x = torch.stack((values, marks), dim=-1)
        loss = (readout(layer(x)[0][:, -1])[:, 0] - (values * marks).sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return layer, readout, x[0]


@cache
def molecule_model() -> tuple[Any, list[str], np.ndarray]:
    """Return a regressor of drug-likeness, and molecules and values that it has not read."""
    table = assembled_molecules(500)
    model = MoleculeRegressor(members=2, epochs=15, random_state=0, verbose=0)
    model.fit(table.smiles[:350], table.numbers()[:350, 0])
    return model, table.smiles[350:], table.numbers()[350:, 0]


@cache
def sines() -> Any:
    """Return the activations of a network that learned a sum of two sines."""
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 400)[:, None]
    y = torch.sin(4 * torch.pi * x) + 0.5 * torch.sin(11 * torch.pi * x)
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 12), nn.KernelActivation(12, num_centers=60, init="relu"),
        torch.nn.Linear(12, 1),
    )  # fmt: skip
    optimizer = torch.optim.Adam(nn.activation_groups(model, lr=1e-2))
    for _ in range(2000):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model[1]
