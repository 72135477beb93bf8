"""Devices by name: an explicit request is obeyed or refused, never replaced."""

from __future__ import annotations

import io
import sys

import pytest
import torch

from representer import machine
from representer.errors import ArgumentError
from representer.machine import is_device_name, require_device


@pytest.fixture(params=[0, 2], ids=["without a GPU", "with two GPUs"])
def count(request, monkeypatch) -> int:
    """Return the number of CUDA devices that torch seems to find."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: request.param)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    return request.param


def test_auto_is_a_cuda_device_if_there_is_one(count: int):
    assert require_device("auto").type == ("cuda" if count else "cpu")
    assert require_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_cuda_device_is_taken_by_its_number_or_refused(count: int, name: str):
    if count:
        assert require_device(name) == torch.device(name)
    else:
        with pytest.raises(ArgumentError, match=f"'{name}'; expected auto or cpu"):
            require_device(name)


@pytest.mark.parametrize("name", ["cuda:2", "mps"])
def test_a_device_that_is_not_there_is_refused(count: int, name: str):
    with pytest.raises(ArgumentError, match=f"device is '{name}'"):
        require_device(name)


def test_an_apple_gpu_is_taken_on_request_alone(count: int, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert require_device("mps").type == "mps"
    assert require_device("auto").type == ("cuda" if count else "cpu")


def test_several_processes_take_no_numbered_device(count: int):
    assert require_device("auto", processes=2).type == ("cuda" if count else "cpu")
    if count:
        with pytest.raises(ArgumentError, match="a CUDA device of its own"):
            require_device("cuda:1", processes=2)


@pytest.mark.parametrize(
    "name", ["gpu", "cuda:", "cuda:-1", "cpu:0", "CUDA", "cuda:٣", "", None, 0]
)
def test_other_names_are_not_devices(name: object):
    assert not is_device_name(name)
    with pytest.raises(ArgumentError, match="expected auto, cpu, cuda, cuda:N or mps"):
        require_device(name)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("variable", ["", "cp1252"])
def test_letters_that_a_code_page_lacks_are_written_to_a_pipe_unless_it_is_requested(
    variable: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    if variable:
        monkeypatch.setenv("PYTHONIOENCODING", variable)
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="cp1252"))
    machine.write_utf8()
    print("é ≥ 猫", end="", flush=True)
    assert pipe.getvalue() == ("é ? ?".encode("cp1252") if variable else "é ≥ 猫".encode())
