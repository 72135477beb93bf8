"""Plant mistakes in the papers' recipes, one at a time, and count those that their tests see.

python benchmarks/faults/recipe_tables.py

Each line of the table is a module below src/, a text that occurs in it once, and its replacement.
The module is restored after each trial; the checkout must have no changes there.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("recipe_tables", "printed_figures", "kbdnn2018_problems", "string_graph2017_sentiment_run",
         "string_graph2017_sentiment", "string_graph2017_molecules")  # fmt: skip
MISTAKES = """
kbdnn2018/xor.py | linear.parameters()], 0.01) | linear.parameters()], 0.001)
kbdnn2018/xor.py | (0.0, 0.00075) | (0.0, 0.0075)
kbdnn2018/xor.py | (50, 100, 300) | (50, 100, 200)
kbdnn2018/xor.py | UPDATES = 1_000_000 | UPDATES = 100_000
kbdnn2018/xor.py | (outputs - targets).square().mean()\\n        if | (outputs - targets).square().sum()\\n        if
kbdnn2018/xor.py | setting.penalty * f.penalty() | setting.penalty * f.penalty() / setting.centers
kbdnn2018/xor.py | init="random" | init="tanh"
kbdnn2018/xor.py | torch.nn.init.trunc_normal_(linear.bias) | torch.nn.init.zeros_(linear.bias)
kbdnn2018/charging.py | network.parameters(), 1e-3 | network.parameters(), 1e-2
kbdnn2018/charging.py | .square().sum(0).mean() | .square().mean()
kbdnn2018/charging.py | 10_000, 500, 25_000 | 10_000, 500, 2_500
kbdnn2018/problems.py | "paper": (0, 9) | "paper": (1, 9)
kbdnn2018/problems.py | for _ in range(3) | for _ in range(4)
kbdnn2018/problems.py | time: int = 30 | time: int = 20
kbdnn2018/problems.py | (charge - 1).clamp | (charge - 2).clamp
kbdnn2018/problems.py | "iff": (1, 0, 0, 1) | "iff": (1, 0, 1, 1)
kbdnn2018/networks.py | centers: int = 20) | centers: int = 50)
kbdnn2018/networks.py | options: dict[str, Any] = {"init": "zeros"} | options: dict[str, Any] = {"init": "zeros", "green": "relu"}
kbdnn2018/networks.py | nn.init.ones_(layer.get_parameter("weight_hh_l0")) | nn.init.zeros_(layer.get_parameter("weight_hh_l0"))
kbdnn2018/networks.py | units: int = 20, centers: int = 100 | units: int = 10, centers: int = 100
kbdnn2018/networks.py | KBRN(1, units, init="zeros", **common) | KBRN(1, units, init="zeros", normalize=False, **common)
kbdnn2018/networks.py | is_lstm and preset == "authors_code" | is_lstm
kbdnn2018/long_term.py | torch.optim.Adam(trained, 1e-3) | torch.optim.Adam(trained, 2e-3)
kbdnn2018/long_term.py | (output - y).square().mean().backward() | (output - y).abs().mean().backward()
kbdnn2018/long_term.py | UPDATES = 100_000 | UPDATES = 10_000
kbdnn2018/long_term.py | EPOCH, TEST, SAVE = 500, 10 | EPOCH, TEST, SAVE = 500, 20
kbdnn2018/long_term.py | ENOUGH, SOLVED = 0.99 | ENOUGH, SOLVED = 0.9
kbdnn2018/long_term.py | (60, 80, 100, 150, 200) | (60, 80, 100, 150)
kbdnn2018/__init__.py | seeds=(0, 1, 2, 3, 4) | seeds=(0,)
string_graph2017/__init__.py | seeds=(0, 1, 2, 3, 4) | seeds=(0,)
string_graph2017/sentiment.py | hidden_size: int = 200 | hidden_size: int = 300
string_graph2017/sentiment.py | dropout: float = 0.35 | dropout: float = 0.5
string_graph2017/sentiment.py | lr_decay: float = 0.95 | lr_decay: float = 1.0
string_graph2017/sentiment.py | 2 * config.penalty | config.penalty
string_graph2017/sentiment.py | "constant": 0.5 | "constant": 0.8
string_graph2017/sentiment.py | monitor="valid_accuracy" | monitor="valid_loss"
string_graph2017/sentiment.py | matrix[rows] /= | matrix[rows] *=
string_graph2017/sentiment.py | == "frozen") | != "frozen")
string_graph2017/sentiment.py | EPOCHS = 200 | EPOCHS = 100
string_graph2017/sentiment.py | "readout": "last" | "readout": "sum"
string_graph2017/sentiment.py | 0.2 if task == "fine" | 0.1 if task == "fine"
string_graph2017/language.py | "constant": {"decay": "0.8" | "constant": {"decay": "0.5"
string_graph2017/language.py | "combine": "add" | "combine": "multiply"
string_graph2017/language.py | "num_layers": 4 | "num_layers": 3
string_graph2017/language.py | PRESETS["string-20m"] | PRESETS["string-5m"]
string_graph2017/molecules.py | LR, LR_DECAY = 1e-3, 0.9 | LR, LR_DECAY = 1e-3, 0.95
string_graph2017/molecules.py | BATCH, WIDTH, BONDS = 20, 0.05 | BATCH, WIDTH, BONDS = 20, 0.5
string_graph2017/molecules.py | F.mse_loss(model(graphs), graphs.y) | F.l1_loss(model(graphs), graphs.y)
string_graph2017/molecule_networks.py | DEPTH = 4 | DEPTH = 3
string_graph2017/molecule_networks.py | {"readout": "last"} | {"readout": "sum"}
string_graph2017/molecule_networks.py | "gate_scale": 10.0 | "gate_scale": 1.0
string_graph2017/molecules.py | DECAYS = 100_000, 51 | DECAYS = 100_000, 50
string_graph2017/molecules.py | values > 0) | values >= 0)
string_graph2017/graph_sets.py | OUTER = 10 | OUTER = 5
rkm2019/documents.py | FILTER_LENGTHS = (1, 3) | FILTER_LENGTHS = (1, 2)
rkm2019/documents.py | settings["max_length"] = place.dataset.padded_length | pass
rkm2019/documents.py | 1_400_000, 60_000, 96 | 1_400_000, 60_000, 128
rkm2019/language.py | "batch_size": 80, "epochs": 750 | "batch_size": 20, "epochs": 750
rkm2019/language.py | _NORMALIZED = ("rkm-lstm",) | _NORMALIZED = ()
rkm2019/lfp.py | filter_length=40 | filter_length=20
rkm2019/lfp.py | hidden_size=30, | hidden_size=40,
rkm2019/lfp.py | folds=0 if request.budget == 1 | folds=10 if request.budget == 1
rkm2019/lfp.py | "lr": 5e-3 | "lr": 1e-3
shared/language.py | FULL_RATE, LAST_RATE = 0.4 | FULL_RATE, LAST_RATE = 0.5
""".strip().splitlines()  # noqa: E501


def is_seen(module: str, text: str, mistake: str) -> bool:
    """Return True if a test fails with the mistake in the module."""
    path = ROOT / "src" / "representer_papers" / module
    right = path.read_text("utf-8")
    if right.count(text) != 1:
        raise SystemExit(f"{module}: {text!r} occurs {right.count(text)} times; it must be once.")
    path.write_text(right.replace(text, mistake), "utf-8")
    try:
        if (child := os.fork()) == 0:
            import pytest

            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            tests = [str(ROOT / "tests" / "papers" / f"test_{name}.py") for name in NAMES]
            os._exit(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    finally:
        path.write_text(right, "utf-8")


def main() -> None:
    """Plant every mistake, say of each whether a test sees it, and print the count."""
    sys.dont_write_bytecode = True  # a mistake must not be cached
    os.chdir(ROOT)
    # the forked processes import the recipes alone: all that they need is there already
    for name in ("kbdnn2018.long_term", "rkm2019.lfp", "rkm2019.documents",
                 "string_graph2017.molecules", "string_graph2017.sentiment",
                 "string_graph2017.graph_kernels"):  # fmt: skip
        importlib.import_module(f"representer_papers.{name}")
    for name in [name for name in sys.modules if name.startswith("representer_papers")]:
        del sys.modules[name]
    trials = [[part.replace("\\n", "\n") for part in line.split(" | ")] for line in MISTAKES]
    seen = 0
    for module, text, mistake in trials:
        if is_seen(module, text, mistake):
            seen += 1
        else:
            print(f"not seen: {module}: {text!r} -> {mistake!r}", flush=True)
    print(f"{seen} of {len(trials)} mistakes are seen")


if __name__ == "__main__":
    main()
