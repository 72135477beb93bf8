"""The obvious server: a network of torch.nn behind FastAPI, one call of it per request.

python benchmarks/serving_peer.py RUN PORT PROCESSES
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from torch import Tensor, nn

torch.set_num_threads(1)


class Network(nn.Module):
    """An embedding, an LSTM, the mean over time and two linear layers, as large as ours."""

    def __init__(self, words: int, size: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, size, batch_first=True)
        self.head = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, classes))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the probability of each class."""
        return self.head(self.lstm(self.embedding(tokens))[0].mean(1)).softmax(-1)


class Objects(BaseModel):
    """Texts to classify."""

    inputs: list[str]


def main(run: str, port: str, processes: str) -> None:
    words: list[str] = json.loads((Path(run) / "vocabulary.json").read_text("utf-8"))
    numbers = {word: k for k, word in enumerate(words)}
    network = Network(len(words) + 2, 128, 2).eval()
    app = FastAPI()

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/predict")
    def predict(body: Objects) -> dict[str, list[list[float]]]:
        predictions = []
        with torch.inference_mode():
            for text in body.inputs:
                tokens = [numbers.get(word, 1) for word in text.split()] or [1]
                predictions.append(network(torch.tensor([tokens]))[0].tolist())
        return {"predictions": predictions}

    listening = socket.create_server(("127.0.0.1", int(port)))
    others = []
    for _ in range(int(processes) - 1):  # each accepts connections of the same socket
        others.append(os.fork())
        if not others[-1]:
            break
    else:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again once it has stopped
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])
    for child in filter(None, others):
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
