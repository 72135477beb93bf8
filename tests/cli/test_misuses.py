"""Every command against its misuses: one line that names the fault, exit code 2, nothing written.

``{text}``, ``{graph}``, ``{molecule}``, ``{signal}`` and ``{language}`` are finished runs,
``{table}`` is a table of texts, and ``{new}`` a path that does not exist.
"""

from __future__ import annotations

import pytest

from cli.test_fit import TASKS

RUNS = ("evaluate {} {table}", "predict {} {table}", "explain {} {table}", "generate {}",
        "report {}", "export {}", "serve {}")  # fmt: skip
MISUSES = [  # the command, and what the line says
    *((command.replace("{}", "{new}"), "there is no such run folder") for command in RUNS[:-2]),
    *((command.replace("{}", "{folder}"), "this is no run") for command in RUNS[:4]),
    ("report {folder}", "{folder}"),
    ("evaluat", "'evaluat' is not a command. Did you mean 'evaluate'?"),
    ("fit", "expected one of: text"),
    ("fit txt", "Did you mean 'text'?"),
    ("evaluate runs/a", "data"),
    ("cells --hidden-size 0", "--hidden-size is 0; expected a positive integer"),
    # options of other tasks
    ("predict {molecule} {table} --text x", "--text is 'x'; expected nothing"),
    ("predict {graph} {table} --text x", "--text is 'x'; expected nothing"),
    ("evaluate {text} {table} --smiles text", "--smiles is 'text'; expected nothing"),
    ("evaluate {signal} {table} --delimiter ;", "--delimiter"),
    ("predict {signal} {table} --smiles s", "--smiles"),
    ("predict {text} {table} --events go",
     "--events is 'go'; expected nothing, since the model is one of texts"),
    ("predict {text} {table} --stream",
     "--stream is True; expected nothing, since the model is one of texts"),
    ("evaluate {language} {table} --label kind", "--label is 'kind'; expected nothing"),
    ("generate {text}", "the run is one of texts; expected one of running text"),
    ("generate {molecule}", "the run is one of molecules; expected one of running text"),
    ("generate {graph}", "the run is one of graphs; expected one of running text"),
    ("predict {graph} --input x", "--input is 'x'; expected a file or a folder as DATA"),
    # cells
    ("fit text {table} --out {new} --cell rkmcifg", "--cell is 'rkmcifg'"),
    ("fit text {table} --out {new} --cell rkmcifg", "Did you mean 'rkm-cifg'?"),
    *((f"fit {task} {{table}} --out {{new}} --answer kernel --cell lsmt",
       "--cell is 'lsmt'; expected one of") for task in ("text", "series", "signal", "language")),
    ("fit text {table} --out {new} --cell torch-lstm --layer-norm true",
     "--layer-norm is True; expected False"),
    ("fit text {table} --out {new} --decay 0.7", "The cell 'rkm-cifg' has no such option"),
    *((f"fit text {{table}} --out {{new}} --cell string-kernel --decay {decay}",
       f"--decay is '{decay}'; expected a number in [0, 1], learned, input or state.")
      for decay in ("1.5", "sometimes", "nan")),
    # ranges
    ("explain {text} {table} --limit 0", "--limit is 0; expected a positive integer."),
    ("explain {text} {table} --top 0", "--top is 0; expected a positive integer."),
    ("generate {language} -n 0", "--tokens is 0; expected a positive integer"),
    ("generate {language} --temperature -1", "--temperature is -1.0; expected 0 or more"),
    ("generate {language} --top-p 0", "--top-p is 0.0; expected above 0 and up to 1"),
    ("generate {language} --device gpu",
     "--device is 'gpu'; expected auto, cpu, cuda, cuda:N or mps"),
    ("compare {table} --out {new} --splits 1", "--splits is 1; expected 2 or more"),
    ("compare {table} --out {new} --jobs -1", "--jobs is -1; expected 0 or more"),
    ("compare {table} --out {new} --cells lstm,nonsense", "cell is 'nonsense'; expected"),
    ("compare {table} --out {new} --smiles a --text b", "no task has all of these options"),
    ("predict {text} {table} --jobs 0", "--jobs is 0; expected 1 or more"),
    ("reproduce kbrn-xor --threads 100000000", "--threads is 100000000; expected at most "),
    ("fit signal a.npz --threads 100000000", "--threads is 100000000; expected at most "),
    # outputs
    *((f"predict {{text}} {{table}} -o {{folder}}/{name}", "{folder}")
      for name in ("nowhere/out.csv", ".", "out.xlsx", "out.jsonl", "out.csv.gz")),
    ("predict {text} {table} -o {table}", "is the input"),
    ("predict {text} {table} --format csv", "nothing unless DATA is -"),
    # sharing and serving
    ("export {text} --to torch --int8", "--int8 is True; expected False for torch"),
    ("export {text} --to hub --int8", "--int8 is True; expected nothing with --to hub"),
    ("export {text} --to tflite", "tflite"),
    ("export {new}", "there is no such run folder"),
    ("demo run some.csv", "nothing without --serve"),
    ("demo --port 1", "nothing without --serve"),
    ("demo --serve --host 0.0.0.0", "--host is not an option"),
    ("demo nowhere --serve", "nowhere"),
    ("demo {text} --serve --port 70000", "0 to 65535"),
    ("demo {text} --serve --port -1", "0 to 65535"),
    ("serve {text} --host 0.0.0.0", "Pass --token-file, or set REPRESENTER_TOKEN"),
    ("serve {text} --host 192.0.2.1", "127.0.0.1, ::1 or localhost where there is no token"),
    ("serve {text} --port 70000", "0 to 65535"),
    ("serve {text} --max-bytes 0", "a positive number"),
    ("serve {text} --threads 0", "a positive number"),
    ("serve {text} --token-file missing", "a file with a token"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "message"), MISUSES, ids=[c for c, _ in MISUSES])
def test_a_misuse_is_named_in_one_line_and_writes_nothing(
    run, request, table, tmp_path, command, message
):
    folder = tmp_path / "folder"
    folder.mkdir()
    places = {"table": table, "new": tmp_path / "new", "folder": folder} | {
        task: request.getfixturevalue(fixture)
        for task, (fixture, *_) in TASKS.items()
        if f"{{{task}}}" in command
    }
    before = table.read_bytes()
    outcome = run(*command.format(**places).split())
    assert outcome.code == 2
    assert message.format(**places) in outcome.error
    assert outcome.out in ("", f"reading {table} ...\n")  # said before the options are checked
    assert table.read_bytes() == before
    assert [path.name for path in folder.iterdir()] == []
    assert not (tmp_path / "new").exists()
