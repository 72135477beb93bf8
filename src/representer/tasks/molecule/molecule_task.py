"""The task ``molecule``: numbers or classes of molecules."""

from __future__ import annotations

from representer.tasks.molecule.molecule_config import FileOptions, MoleculeConfig, MoleculeReading
from representer.tasks.molecule.molecule_config import defaults as molecule_defaults
from representer.tasks.task import Task

_HOME = "representer.tasks.molecule.molecule_use"
_READING = (MoleculeReading, FileOptions)
MOLECULE = Task(
    name="molecule",
    summary="Train a model of molecules on a table of SMILES and values.",
    noun="molecules",
    config=MoleculeConfig,
    defaults=lambda given: molecule_defaults(given.preset, demo=given.demo, task=given.task),
    options={"evaluate": _READING, "predict": _READING, "explain": _READING},
    functions={
        "fit": "representer.tasks.molecule.molecule_fit:fit",
        "evaluate": f"{_HOME}:evaluate",
        "predict": f"{_HOME}:predict",
        "explain": f"{_HOME}:explain",
        "as_text": f"{_HOME}:as_text",
    },
)
