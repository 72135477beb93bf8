"""Imports: what they load, how long they take, and the message where a package is missing.

Each question is asked in an interpreter of its own.
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import representer

OPTIONAL = (
    "matplotlib", "scipy", "sklearn", "accelerate", "jsonargparse", "pyarrow", "safetensors",
    "filelock", "joblib", "torch_geometric", "rdkit", "triton",
)  # fmt: skip

# As if packages were not installed: the finder of the path does not find them.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
hidden = set({names!r})
PathFinder.find_spec = staticmethod(
    lambda name, *rest: None if name.partition(".")[0] in hidden else found(name, *rest)
)
"""


def interpret(code: str, *, without: tuple[str, ...] = ()) -> str:
    """Run code in a fresh interpreter and return what it printed."""
    prelude = WITHOUT.format(names=without) if without else "import sys\n"
    result = subprocess.run(
        [sys.executable, "-c", prelude + code], capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_package_alone_does_not_load_torch():
    loaded = interpret("import sys, representer; print('torch' in sys.modules)")
    assert loaded == "False\n"


def test_layers_of_graphs_are_imported_with_the_others_where_torch_geometric_is_installed():
    pytest.importorskip("torch_geometric")
    names: dict[str, object] = {}
    exec("from representer.nn import *", names)
    assert {"RKMCIFG", "WLKernelNN"} <= set(names)


def test_without_packages_the_layers_work_and_the_command_that_installs_them_is_named(tmp_path):
    said = interpret(
        "from representer.nn import *\n"
        "print(RKMCIFG.__name__, 'WLKernelNN' in dir())\n"
        "import os, representer, torch\n"
        "RKM(2, 3, feedback=False)(torch.zeros(4, 2))\n"
        "try: representer.nn.RandomWalkKernelNN\nexcept ImportError as error: print(error)\n"
        "try: representer.nn.NoLayer\nexcept AttributeError as error: print(error)\n"
        "try: representer.kernels\nexcept ImportError as error: print(error)\n"
        "from representer.cli.main import entry_point\n"
        f"os.chdir({str(tmp_path)!r}); sys.stderr = sys.stdout\n"
        "print(entry_point(['fit', 'text', '--demo']))",
        without=("torch_geometric", "sklearn"),
    )
    *layers, reading, refusal, code = said.splitlines()
    assert reading == "reading the demo ..."
    assert layers == [
        "RKMCIFG False",
        'representer.nn.graph needs torch_geometric: pip install "representer[graph]"',
        "module 'representer.nn' has no attribute 'NoLayer'",
        'representer.kernels needs scikit-learn: pip install "representer[kernels]"',
    ]
    assert refusal.endswith('needs scikit-learn: pip install "representer[train]"')
    assert code == "2"
    assert list(tmp_path.iterdir()) == []


def test_layers_functions_and_operators_load_no_optional_package():
    shown = interpret(
        "import sys, representer, torch\n"
        "representer.functional, representer.ops\n"
        "layer = representer.nn.RKMCIFG(2, 3)\n"
        "print(tuple(layer(torch.zeros(4, 1, 2))[0].shape))\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )
    assert shown == "(4, 1, 3)\n[]\n"


def test_help_does_not_wait_for_torch():
    last = interpret(
        "import sys\n"
        "from representer.cli.main import COMMANDS, entry_point\n"
        "for words in ['--version', *(f'{name} --help' for name in COMMANDS)]:\n"
        "    assert entry_point(words.split()) == 0\n"
        "print({'torch', 'sklearn', 'fastapi'} & {*sys.modules})"
    ).splitlines()[-1]
    assert last == "set()"


def test_what_answers_over_http_does_not_load_torch_which_the_process_of_the_model_does():
    pytest.importorskip("fastapi")
    loaded = "import representer.serving.app, sys; print({'torch', 'sklearn'} & {*sys.modules})"
    assert interpret(loaded) == "set()\n"


def test_a_prediction_does_not_wait_for_the_measures_of_scikit_learn():
    loaded = "import sys, representer.tasks.text, representer.estimators.text\n"
    loaded += "print({'sklearn.metrics', 'sklearn.gaussian_process'} & {*sys.modules})"
    assert interpret(loaded) == "set()\n"


def test_the_package_is_the_command_when_run_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "representer", "--version"], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout.split()[0]) == (0, "representer")


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    import representer

    with pytest.raises(AttributeError, match="no attribute 'nets'"):
        _ = representer.nets
    assert {"nn", "kernels", "tasks"} <= set(dir(representer))


def test_a_command_without_its_package_is_one_line_with_the_fix():
    code = "from representer.cli.main import entry_point\nsys.exit(entry_point(['cells']))"
    code = WITHOUT.format(names=("jsonargparse",)) + code
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.endswith('needs jsonargparse: pip install "representer[train]"')


@pytest.mark.slow
def test_the_layers_take_less_than_one_and_a_half_times_as_long_to_import_as_torch():
    timed = "import time; s = time.process_time(); import {}; print(time.process_time() - s)"
    seconds: dict[str, list[float]] = {"torch": [], "representer.nn": []}
    for name in seconds:
        interpret(timed.format(name))  # files are read from the disk once before it counts
    for _ in range(3):
        for name, found in seconds.items():
            found.append(float(interpret(timed.format(name))))
    ours, torchs = (statistics.median(seconds[name]) for name in ("representer.nn", "torch"))
    assert ours < 1.5 * torchs, seconds


def test_what_the_extra_train_installs_is_enough_to_train_on_text_and_to_serve():
    said = interpret(
        "from representer.kernels import StringKernel\n"
        "from representer.estimators import SignalClassifier, TextClassifier\n"
        "import representer.serving, representer.tasks.signal.flow, representer.tasks.text\n"
        "print(TextClassifier.__name__)",
        without=("gpytorch", "torch_geometric", "rdkit", "mne", "onnx", "onnxruntime"),
    )
    assert said == "TextClassifier\n"


@pytest.mark.slow
def test_a_model_is_trained_and_loaded_without_the_compiler_of_torch(tmp_path):
    sizes = "hidden_size=3, embedding_size=3, epochs=1, min_count=1, verbose=0"
    slow = {"sympy", "torch._dynamo", "torch.distributed.tensor", "torch.onnx"}
    loaded = f"print({slow} & {{*sys.modules}})"
    said = interpret(
        "import sys\n"
        "from representer.estimators import TextClassifier\n"
        f"model = TextClassifier({sizes})\n"
        "model.fit(['a good film', 'a bad film'] * 9, ['+', '-'] * 9)\n"
        f"model.save({str(tmp_path)!r})\n{loaded}"
    )
    assert said.split() == ["set()"]
    said = interpret(
        "import sys\n"
        "from representer.estimators import base\n"
        f"model = base.load({str(tmp_path)!r})\n"
        f"print(*model.predict(['a good film']))\n{loaded}"
    )
    assert said.split()[1:] == ["set()"]


# names of Linux and macOS; those of Linux alone
LINUX_ALONE = {
    "copy_file_range", "eventfd", "fdatasync", "getresgid", "getresuid", "getxattr", "listxattr",
    "memfd_create", "pidfd_open", "posix_fadvise", "posix_fallocate", "preadv", "pwritev",
    "removexattr", "sched_getaffinity", "sched_setaffinity", "setresuid", "setxattr", "splice",
}  # fmt: skip
WITHOUT_WINDOWS = LINUX_ALONE | {
    "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "SIGALRM",
    "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGTSTP", "SIGUSR1",
    "SIGUSR2", "WNOHANG", "alarm", "chown", "ctermid", "fchmod", "fchown", "fork", "forkpty",
    "getegid",
    "geteuid", "getgid", "getgroups", "getloadavg", "getpgid", "getpgrp", "getpriority", "getsid",
    "getuid", "killpg", "lchown", "lockf", "mkfifo", "nice", "openpty", "pathconf", "pipe2",
    "posix_spawn", "pread", "pthread_kill", "pthread_sigmask", "pwrite", "register_at_fork",
    "sendfile", "set_blocking", "setitimer", "setpriority", "setsid", "sigwait", "statvfs", "sync",
    "sysconf", "tcgetpgrp", "ttyname", "tzset", "uname", "wait", "wait3", "wait4",
}  # fmt: skip
MODULES = {"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
# file, name: guarded by the name of the system, or by `try`
GUARDED = {
    ("training/interruption.py", "set_blocking"), ("training/config.py", "resource"),
    ("storage/atomic.py", "SIGKILL"),  # a failure that tests of kills request
}  # fmt: skip


def test_names_that_windows_or_macos_lack_are_requested_before_they_are_used():
    folder, unguarded = Path(representer.__file__).parent, set()
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            names = set()
            is_name = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if is_name and node.value.id in ("os", "signal", "time"):
                names = {node.attr} & WITHOUT_WINDOWS
            if isinstance(node, ast.Import | ast.ImportFrom):
                own = [getattr(node, "module", None), *(alias.name for alias in node.names)]
                names = MODULES & {*own}
            names = {name for name in names if f'hasattr(os, "{name}")' not in text}
            unguarded |= {(path.relative_to(folder).as_posix(), name) for name in names}
    assert unguarded == GUARDED


LIKE_WINDOWS = f"""
import multiprocessing, os, random, signal, sys, time, types
import filelock._unix as native  # in place of that of Windows
import joblib, subprocess, torch  # they ask the system for what they need
native.os = types.ModuleType("os")
native.os.__dict__.update(vars(os))
for name in {sorted(MODULES)}:
    sys.modules[name] = None
for name in {sorted(WITHOUT_WINDOWS - {"fork", "register_at_fork"})}:
    for module in (os, signal, time):
        if hasattr(module, name):
            delattr(module, name)
del os.fork, os.register_at_fork
multiprocessing.get_all_start_methods = lambda: ["spawn"]
import representer.machine
representer.machine.IS_WINDOWS = True
from representer.cli.main import entry_point
words = ["--answer", "kernel", "--baselines", "none", "--out", "run"]
code = entry_point(["fit", "text", "t.csv", *words])
code = code or entry_point(["predict", "run", "t.csv", "-o", "predicted.csv"])
code = code or entry_point(["export", "run"])
from representer.kernels import Linear, gram
import numpy as np
gram(Linear(), np.ones((3, 2)), out="gram.npy")
import representer.serving.model_process as served
assert served._METHOD == "spawn"
refused = entry_point(["fit", "text", "t.csv", *words[:-1], "con.run"])
raise SystemExit(code or refused == 0)
"""


def test_commands_need_nothing_that_windows_lacks(tmp_path):
    """Only names are missing here, not their effects: it has not been run on Windows."""
    rows = [f"a {'good' if k % 3 else 'bad'} film {k},{'+' if k % 3 else '-'}" for k in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LIKE_WINDOWS], cwd=tmp_path, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "'con.run' in con.run is not a name that Windows takes" in done.stderr
    predicted = (tmp_path / "predicted.csv").read_text(encoding="utf-8").splitlines()
    assert len(predicted) == 41
