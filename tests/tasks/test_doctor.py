"""The doctor reports what is installed, what is missing, and cells that are wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from representer.models import cells
from representer.nn import TABLE1
from representer.options import task as packages
from representer.tasks import doctor
from representer.tasks.doctor import as_data, as_table, examine


def test_a_sound_machine_is_usable_and_every_cell_was_checked():
    findings = examine()
    assert [f.what for f in findings if f.status == "fail"] == []
    assert set(TABLE1) <= {f.what for f in findings if "recurrence" in f.detail}
    assert as_table(findings).endswith("Everything needed works.")


WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("libcudart.so is missing")

sys.meta_path.insert(0, Missing())
from representer.cli import entry_point
raise SystemExit(entry_point(["doctor"]))
"""


def test_a_torch_that_cannot_be_imported_is_a_finding():
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "FAIL  torch" in ran.stdout
    assert "cannot be imported (libcudart.so is missing). Fix: pip install" in ran.stdout
    assert ran.stdout.endswith("Not usable yet: torch.\n")


def test_a_missing_package_is_a_note_with_its_size_and_the_fix(monkeypatch):
    gone = packages.Package("nowhere", "nowhere_at_all", "graph", 30, "graph layers")
    monkeypatch.setattr(doctor, "PACKAGES", (gone,))
    findings = examine()
    assert as_data(findings)["usable"] is True  # a note does not make the machine unusable
    (finding,) = [f for f in findings if f.what == "nowhere"]
    assert finding.status == "note"
    assert (
        'needed for graph layers. About 30 MB: pip install "representer[graph]"' in finding.detail
    )


def test_a_cell_that_differs_from_its_recurrence_fails(monkeypatch):
    wrong = TABLE1["RKM-LSTM"]

    def layer_with_noise(*args, **options):
        layer = wrong(*args, **options)
        layer.register_forward_hook(lambda module, _, out: (out[0] + 1e-6, out[1]))
        return layer

    monkeypatch.setitem(cells.TABLE1, "RKM-LSTM", layer_with_noise)
    failed = [f.what for f in examine() if f.status == "fail"]
    assert failed == ["RKM-LSTM"]


@pytest.mark.parametrize("name", TABLE1)
def test_the_self_check_leaves_the_random_state_alone(name):
    before = torch.get_rng_state()
    cells.deviation(name)
    assert torch.equal(before, torch.get_rng_state())
