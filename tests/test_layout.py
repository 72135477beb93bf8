"""Check the layout rules: file sizes, docstrings, a test file per module, safe calls."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent
SRC, TESTS = ROOT / "src", ROOT / "tests"
MODULES = sorted(SRC.rglob("*.py"))
SOURCES = sorted(path for path in SRC.rglob("*") if path.suffix in (".py", ".cpp", ".hpp"))

# Modules without a test file of their own name, by the file whose tests see them.
COVERED_BY = {
    "tests/ops/test_triton.py": (
        "ops/gpu", "ops/steps", "ops/gated_scan/triton", "ops/string_scan/triton",
        "ops/string_scan/chain", "ops/kernel_activation/triton", "ops/walk_aggregate/triton",
        "ops/walk_rounds/triton", "ops/rkm_scan/triton", "ops/rkm_scan/whole",
        "ops/rkm_scan/pointwise", "ops/rkm_scan/stationary",
        "ops/rkm_scan/stationary_gradient", "ops/kbrn_scan/triton",
    ),
    "tests/ops/test_threads.py": ("ops/divided_samples",),
    "tests/serving/test_app.py": (
        "serving/__init__", "serving/limits", "serving/metrics",
    ),
    "tests/serving/live/test_view.py": (
        "serving/live/graphs", "serving/live/kind", "serving/live/molecules",
        "serving/live/signals", "serving/live/texts",
    ),
    "tests/cli/test_demo.py": ("tasks/examples_of_run", "tasks/live_examples"),
    "tests/cli/test_drift.py": ("tasks/estimator_drift",),
    "tests/export/test_runs.py": (
        "export/__init__", "export/preprocessing",
        "export/examples/text", "export/examples/signal", "export/examples/language",
        "export/examples/graph",
    ),
    "tests/kernels/test_gram_file.py": ("kernels/gram_blocks", "kernels/gram_journal"),
    "tests/kernels/test_string_kernel.py": ("kernels/sequence_kernel",),
    "tests/kernels/test_subtree_kernel.py": ("kernels/color_counts", "kernels/subtree_names"),
    "tests/kernels/test_ngram_kernel.py": ("kernels/ngram_weights", "kernels/text_kernel"),
    "tests/estimators/test_signal_kernel.py": ("estimators/kernel_selection",),
    "tests/kernels/test_cross_spectral_kernel.py": ("kernels/spectra",),
    "tests/estimators/test_language_kernel.py": (
        "estimators/language_estimator", "estimators/language_predictors",
    ),
    "tests/estimators/test_report_page.py": (
        "estimators/language_report", "estimators/results",
    ),
    "tests/report/test_explained.py": ("report/graph_drawing",),
    "tests/report/test_trust.py": ("report/cards",),
    "tests/estimators/test_joint_fitting.py": (
        "estimators/joint_target",
        "estimators/kernel_machine", "estimators/linear_solution",
    ),
    "tests/cli/test_main.py": ("cli/errors",),
    "tests/cli/test_parser.py": ("cli/config_file",),
    "tests/tasks/test_registry.py": (
        "cli/run_options", "tasks/task",
        "tasks/graph/graph_task",
    ),
    "tests/tasks/test_estimator_objects.py": ("report/results",),
    "tests/cli/test_fit_large_text.py": ("tasks/text/large_tables",),
    "tests/cli/test_fit_graph.py": (
        "tasks/estimator_explain", "tasks/estimator_use", "tasks/graph/graph_flow",
    ),
    "tests/data/graphs/test_graphs_jsonl.py": ("data/graphs/reading", "data/graphs/records"),
    "tests/data/graphs/test_graphs_tables.py": ("data/graphs/feature_table",),
    "tests/data/signals/test_signals_tables.py": ("data/signals/sample_table",),
    "tests/tasks/test_estimator_task.py": (
        "tasks/estimator_data", "tasks/estimator_examples", "tasks/estimator_results",
    ),
    "tests/cli/test_small_commands.py": ("cli/cells", "cli/doctor", "cli/report"),
    "tests/data/text/test_table.py": ("data/tables/reading",),
    "tests/explain/test_influence.py": (
        "explain/recurrent_contributions", "explain/recurrent_parts",
    ),
    "tests/explain/test_top_ngrams.py": ("explain/checks",),
    "tests/data/text/test_vocabulary.py": ("data/numbering",),
    "tests/functional/test_recurrent_kernel_definition.py": ("functional/recurrent_kernel",),
    "tests/kernels/test_recurrent_kernel.py": ("kernels/kernel",),
    "tests/kernels/test_weisfeiler_lehman_kernel.py": ("kernels/color_refinement",),
    "tests/theorems/test_graph2017_wl.py": ("nn/graph/relabeling",),
    "tests/kernels/test_random_walk_kernel.py": (
        "kernels/graph_batch", "kernels/graph_kernel", "kernels/label_walks",
        "kernels/local_kernels", "kernels/walk_features",
    ),
    "tests/nn/graph/test_random_walk_kernel_nn.py": (
        "nn/graph/graph_network", "nn/graph/graph_options",
        "nn/graph/path_graph", "nn/graph/walk_states",
    ),
    "tests/nn/activation/test_kernel_activation.py": (
        "nn/activation/compaction", "nn/activation/initial", "nn/activation/piecewise_linear",
        "nn/activation/plot",
    ),
    "tests/models/test_config.py": ("models/sequence_classifier_config", "requirements"),
    "tests/models/test_language_model.py": ("models/language_model_config",),
    "tests/models/test_signal_classifier.py": (
        "models/signal_classifier_config", "models/signal_pooling", "nn/recurrent/cells/syncnet",
    ),
    "tests/models/test_stacked_classifier.py": ("models/stacked_classifier_config",),
    "tests/models/test_tied_softmax.py": ("models/cross_entropy",),
    "tests/nn/recurrent/test_fast_step.py": ("nn/recurrent/core_steps",),
    "tests/nn/recurrent/test_stream.py": ("ops/packed_step",),
    "tests/nn/recurrent/machine/test_streaming_step.py": ("ops/rkm_scan/step",),
    "tests/nn/recurrent/string/test_streaming_step.py": ("ops/string_scan/step",),
    "tests/nn/regularization/test_drop_connect.py": ("nn/regularization/undropped",),
    "tests/nn/recurrent/kbrn/test_kbrn.py": (
        "nn/recurrent/kbrn/direction", "nn/recurrent/kbrn/step_norm",
    ),
    "tests/ops/kbrn_scan/test_kbrn_scan.py": ("ops/kbrn_scan/samples",),
    "tests/ops/test_core.py": ("ops/structs",),
    "tests/ops/separable_convolution/test_separable_convolution.py": (
        "functional/separable_convolution",
    ),
    "tests/ops/test_ops.py": (  # generated over every backend
        "ops/trials", "ops/gated_scan/cpp", "ops/kbrn_scan/cpp",
        "ops/kbrn_scan/reference",
        "ops/kernel_activation/cpp", "ops/kernel_activation/reference", "ops/rkm_scan/products",
        "ops/separable_convolution/cpp", "ops/separable_convolution/reference", "ops/products",
        "ops/string_scan/gradient", "ops/string_scan/reference",
        "ops/walk_aggregate/cpp", "ops/walk_aggregate/reference", "ops/walk_aggregate/samples",
        "ops/walk_rounds/samples",
    ),
    "tests/ops/walk_aggregate/test_walk_aggregate.py": ("functional/walk_aggregate",),
    "tests/ops/walk_rounds/test_walk_rounds.py": (
        "ops/walk_rounds/cpp", "ops/walk_rounds/reference", "functional/walk_rounds",
    ),
    "tests/papers/test_rkm2019_documents.py": ("shared/table",),
    "tests/papers/test_kbdnn2018_xor.py": ("kbdnn2018/pictures",),
    "tests/papers/test_printed_figures.py": ("rkm2019/published", "string_graph2017/published"),
    "tests/papers/test_string_graph2017_treebank.py": ("shared/datasets",),
    "tests/papers/test_string_graph2017_language.py": ("shared/language",),
    "tests/tasks/signal/test_signal_filters.py": ("report/signal_figures",),
    "tests/storage/test_atomic.py": ("storage/failpoints",),
    "tests/storage/test_fields.py": ("limits",),
    "tests/storage/test_run_folder.py": ("storage/lock",),
    "tests/storage/test_checkpoint.py": (
        "storage/checkpoint/checkpoint", "storage/checkpoint/container",
        "storage/checkpoint/tree",
    ),
    "tests/tasks/test_comparison.py": ("tasks/comparison_table",),
    "tests/tasks/test_doctor.py": ("tasks/self_check",),
    "tests/report/test_report.py": (
        "report/canvas", "report/figures", "report/page",
    ),
    "tests/training/test_trainer.py": (
        "training/metrics_log", "training/snapshot", "training/training_files",
        "training/training_result", "training/training_state",
        "training/training_step", "training/training_task",
    ),
    "tests/estimators/test_language.py": (
        "estimators/language_explanation", "estimators/language_inputs",
        "estimators/language_parameters",
    ),
    "tests/estimators/test_signal.py": (
        "estimators/signal_explanation", "estimators/signal_inputs", "estimators/signal_parameters",
    ),
    "tests/estimators/test_text.py": (
        "estimators/__init__", "estimators/base",
        "estimators/explanation", "estimators/fitting",
        "estimators/kinds", "estimators/supervised",
        "estimators/ngram_contributions", "estimators/parameters",
        "estimators/saving", "estimators/targets",
        "estimators/text_explanation", "estimators/text_parameters",
    ),
    "tests/estimators/test_graph.py": (
        "estimators/graph_explanation", "estimators/graph_inputs",
        "estimators/graph_parameters", "estimators/graph_reading",
    ),
    "tests/estimators/test_molecule.py": (
        "estimators/classes",
    ),
    "tests/training/test_workers.py": ("storage/main_process",),
    "tests/training/test_averaged_sgd.py": ("training/evaluation_weights",),
    "tests/training/test_trainer_resume.py": (
        "training/fingerprint", "training/settings",
    ),
    "tests/cli/test_compare.py": (
        "tasks/estimator_comparison", "tasks/language/language_comparison",
        "tasks/signal/signal_comparison",
    ),
    "tests/cli/test_fit_text.py": ("cli/fit", "tasks/run_flow"),
    "tests/cli/test_fit_language.py": (
        "cli/generate", "tasks/language/language_use",
    ),
    "tests/cli/test_fit_molecule.py": (
        "tasks/molecule/molecule_flow", "report/molecule_drawing", "data/molecules/assembled",
    ),
    "tests/cli/test_fit_signal.py": (
        "tasks/signal/signal_examples",
        "tasks/signal/signal_data", "tasks/signal/signal_fit", "tasks/signal/signal_use",
    ),
    "tests/tasks/signal/test_signal_loso.py": (
        "tasks/signal/signal_fold", "tasks/signal/signal_processes",
    ),
    "tests/models/test_graph_regressor.py": ("models/gine", "models/graph_regressor_config"),
    "tests/test_duality.py": ("nn/has_kernel",),
    "tests/test_installed.py": ("kernels/__init__",),
    "tests/test_import.py": ("__init__", "__main__", "nn/__init__"),
}  # fmt: skip

MODULES_THAT_UNPICKLE = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load", "os.system"}
FORBIDDEN_WORDS = {  # in two parts each, so that this file may be searched too
    "/" + r"work/": "a path of one machine",
    "/" + r"home/\w": "a path of one machine",
    "/" + r"tmp/w/": "a path of one machine",
    r"\bTO" + r"DO\b(?!\()": "a TO" + "DO without the event that ends it, in parentheses",
    r"\bFIX" + r"ME\b": "an unfinished place",
}
LARGEST = 400 * 1024


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def short_name(module: Path) -> str:
    """The module as COVERED_BY writes it: without the package's name and the suffix."""
    return str(Path(*module.relative_to(SRC).parts[1:]).with_suffix(""))


def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def mirrors(module: Path) -> list[Path]:
    """Return where the tests of a module may be."""
    folder = Path(short_name(module)).parent
    top = module.relative_to(SRC).parts[0]
    if top == "representer_papers":
        return [TESTS / "papers" / f"test_{folder}_{module.stem}.py"]
    own = folder.name if module.stem == "__init__" else module.stem
    return [
        TESTS / folder / f"test_{own}.py",
        TESTS / folder / f"test_{folder.name}_{own}.py",
        TESTS / folder.parent / f"test_{folder.name}_{own}.py",
    ]


def defines_something(module: Path) -> bool:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return module.stem != "__init__" or any(isinstance(n, kinds) for n in parsed(module).body)


def unsafe_places(tree: ast.AST) -> Iterator[str]:
    """Yield what a syntax tree does that could run foreign code, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            from_module = node.module if isinstance(node, ast.ImportFrom) else None
            for name in [from_module] if from_module else [alias.name for alias in node.names]:
                if name.partition(".")[0] in MODULES_THAT_UNPICKLE:
                    yield f"line {node.lineno}: imports {name}"
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        options = {k.arg: ast.unparse(k.value) for k in node.keywords}
        if called in FORBIDDEN_CALLS:
            yield f"line {node.lineno}: {called}(...)"
        if options.get("shell", "False") != "False":
            yield f"line {node.lineno}: shell={options['shell']}"
        if called in ("np.load", "numpy.load") and options.get("allow_pickle") != "False":
            yield f"line {node.lineno}: {called} without allow_pickle=False"


def test_a_source_file_has_at_most_700_lines():
    lengths = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 700} == {}


def test_a_module_says_in_the_first_line_what_it_is():
    first = {name_of(m): (ast.get_docstring(parsed(m)) or "").partition("\n")[0] for m in MODULES}
    assert {name: line for name, line in first.items() if not line.endswith(".")} == {}


def test_files_of_tests_outside_of_packages_have_different_names():
    """Python imports one module of a name, and pytest then refuses the second file."""
    files = [p for p in TESTS.rglob("*.py") if not (p.parent / "__init__.py").exists()]
    names = Counter(p.name for p in files if p.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_every_module_has_tests():
    covered = {module for modules in COVERED_BY.values() for module in modules}
    homeless = [
        name_of(module)
        for module in MODULES
        if defines_something(module)
        and short_name(module) not in covered
        and not any(mirror.exists() for mirror in mirrors(module))
    ]
    assert homeless == [], "write tests/.../test_NAME.py, or name the file in COVERED_BY"


def test_the_table_of_exceptions_names_files_and_modules_that_there_are():
    assert [file for file in COVERED_BY if not (ROOT / file).is_file()] == []
    known = {short_name(module) for module in MODULES}
    assert [m for modules in COVERED_BY.values() for m in modules if m not in known] == []


def test_the_table_of_exceptions_holds_no_module_with_a_test_file_of_its_own():
    covered = {module for modules in COVERED_BY.values() for module in modules}
    both = [
        name_of(m)
        for m in MODULES
        if short_name(m) in covered
        and short_name(m) not in ("__init__", "__main__")
        and any(mirror.exists() for mirror in mirrors(m))
    ]
    assert both == []


def test_nothing_is_called_that_could_run_foreign_code():
    found = {name_of(module): list(unsafe_places(parsed(module))) for module in MODULES}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(path)",
        "import pickle",
        "from pickle import loads",
        "eval(text)",
        "exec(text)",
        "yaml.load(file)",
        "subprocess.run(words, shell=True)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_search_for_unsafe_calls_finds(line: str):
    assert list(unsafe_places(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["model.eval()", "yaml.safe_load(file)", "safetensors.torch.load(body)"]
)
def test_the_search_for_unsafe_calls_passes_over(line: str):
    assert not list(unsafe_places(ast.parse(line)))


def public_values() -> Iterator[tuple[str, Any]]:
    """Yield every name of every ``__all__`` with what it names."""
    for init in (m for m in MODULES if m.stem == "__init__"):
        package = importlib.import_module(".".join(init.parent.relative_to(SRC).parts))
        for name in getattr(package, "__all__", ()):
            yield f"{package.__name__}.{name}", getattr(package, name)


def test_a_public_name_can_be_imported_and_says_what_it_is():
    silent = []
    for name, value in public_values():
        docstring = value.__doc__ or ""
        if inspect.isclass(value) and docstring.startswith(f"{value.__name__}("):
            docstring = ""  # written by dataclass or NamedTuple
        can_have_one = inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
        silent += [name] if can_have_one and not docstring else []
    assert silent == []


def test_a_layer_cites_its_paper_and_says_where_its_arguments_are_described():
    layers = {
        name: value
        for name, value in public_values()
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and name.startswith("representer.nn.")
    }
    assert "representer.nn.RKMLSTM" in layers
    for name, layer in layers.items():
        docstring = layer.__doc__ or ""
        assert "References:" in docstring, name
        assert "Args:" in docstring or ":class:`~representer.nn." in docstring, name
        assert ".. math::" in docstring, name


def test_no_tracked_file_is_large():
    assert [name_of(p) for p in tracked_files() if p.stat().st_size > LARGEST] == []


def test_no_tracked_file_holds_a_path_of_one_machine_or_an_unfinished_place():
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for pattern, what in FORBIDDEN_WORDS.items():
            found += [f"{name_of(path)}: {what}: {m[0]}" for m in re.finditer(pattern, text)]
    assert found == []
