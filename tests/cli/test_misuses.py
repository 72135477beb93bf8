"""Every command against its misuses: one line that names the fault, exit code 2, nothing written.

``{text}``, ``{graph}``, ``{molecule}``, ``{signal}`` and ``{language}`` are finished runs,
``{text_data}`` and so on their data, ``{table}`` is a table of texts, and ``{new}`` a path that
does not exist.
"""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pyarrow.parquet
import pytest

from cli.conftest import QUICK, TINY, write_table
from cli.test_fit import TASKS
from representer.cli.errors import UsageError
from representer.cli.main import task_of_data, with_task

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
    ("predict {text}",
     "DATA is None; expected a file or a folder. For a single text: --input TEXT"),
    ("predict {text} {table} --input wave", "--input is 'wave'; expected nothing beside DATA."),
    *((f"fit signal {{signal_data}} --out {{new}} --{option}=1", f"--{option} is")
      for option in ("events", "event-start", "event-seconds")),
    ("fit signal {signal_data} --out {new} --events go",
     "since only recordings such as .edf files have events"),
    # data, labels and columns
    *((f"fit {task} --out {{new}}", f"Without data of your own: representer fit {task} --demo")
      for task in ("text", "graph", "molecule", "language")),
    ("fit signal --out {new}", "DATA is None; expected a file of recordings."),
    ("fit text {table} --config nowhere.yaml",
     "nowhere.yaml: there is no such file. Check the path."),
    ("fit text {table} --out {new} --kind regression",
     "the label is 'sea'; expected a finite number"),
    ("fit graph {graph_data} --out {new} --kind regression",
     "line 1: the label is 'few'; expected a finite number"),
    ("fit graph {graph_data} --out {new} --decay=-1", "decay is '-1'"),
    ("evaluate {graph} {graph}/../numbers.jsonl", "is not one of the 2 classes: 'few', 'many'"),
    ("evaluate {molecule} {molecule_data} --target atoms",
     "the targets are atoms; the model has 2"),
    ("compare {molecule_data} --target atoms,rings --out {new}",
     "--target is 'atoms,rings'; expected one target to compare models on"),
    ("fit text {table} --out {new} --features size", "there is no column 'size'"),
    ("fit text {table} --out {new} --features label",
     "--features is 'label'; expected columns other than"),
    ("fit text {table} --out {new} --features id,", "--features is ('id', '')"),
    ("fit text {table} --out {new} --features id --answer network",
     "which the network does not read"),
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
    ("compare sequence {table} --out {new} --cells lstm", "--cells is 'lstm'; expected none"),
    ("fit sequence {table} --sequence text --out {new} --order text",
     "--order text sorts the tokens of a sequence; here a row is a sequence"),
    ("compare {table} --out {new} --smiles a --text b", "no task has all of these options"),
    ("fit {table} --out {new} --smiles a --text b", "representer fit TASK DATA [options]"),
    *((f"{command} {{table}} --out {{new}} --epohcs 3",
       f"not an option of `representer {command} text`. Did you mean '--epochs'?")
      for command in ("fit", "compare")),
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
    places = {"table": table, "new": tmp_path / "new", "folder": folder}
    for task, (fixture, data, *_) in TASKS.items():
        if f"{{{task}" in command:
            places[task] = request.getfixturevalue(fixture)
            places[f"{task}_data"] = places[task].parent / data
    before = table.read_bytes()
    outcome = run(*command.format(**places).split())
    assert outcome.code == 2
    assert message.format(**places) in outcome.error
    read = (f"reading {path} ...\n" for path in places.values())
    assert outcome.out in ("", *read)  # said before the options are checked
    assert table.read_bytes() == before
    assert [path.name for path in folder.iterdir()] == []
    assert not (tmp_path / "new").exists()


# Bad input: one line with file, place and fix, exit code 2, nothing half-written.


GOOD = "text,label\n" + "wave tide,sea\nmoon star,sky\n" * 20

# name of the file, its bytes (None: the path stays empty), further options, what the line must say
CASES = {
    "a missing column": (
        "a.csv", GOOD.encode(), ["--label", "labell"],
        ["a.csv", "no column 'labell'", "'text', 'label'", "Did you mean 'label'?", "--label one"],
    ),
    "columns that cannot be told apart": (
        "a.csv", b"a1,b1\nwave,moon\nstar,tide\n", [], ["a.csv", "Name it", "--text"],
    ),
    "an empty file": ("a.csv", b"", [], ["a.csv"]),
    "another encoding": (
        "a.csv", GOOD.encode() + "gr\u00fcn,sea\n".encode("latin-1"), [],
        ["a.csv", "line 42", "--encoding"],
    ),
    "one class alone": (
        "a.csv", b"text,label\nwave,sea\ntide,sea\nsalt,sea\n", [],
        ["a.csv", "column 'label'", "'sea'", "at least two classes"],
    ),
    "a row too long": (
        "a.csv", GOOD.encode() + b"a,b,c\n", [], ["a.csv", "line 42", "too many cells", "quotes"],
    ),
    "no file": ("nowhere.csv", None, [], ["nowhere.csv"]),
    "an unknown suffix": ("a.docx", b"PK", [], ["a.docx", ".csv"]),
    "a broken archive": ("a.csv.gz", b"\x1f\x8b\x08broken", [], ["a.csv.gz"]),
    "broken JSON": (
        "a.jsonl", b'{"text": "wave", "label": "sea"}\n{"text"\n', [], ["a.jsonl", "line 2"],
    ),
    "too few documents": ("a.csv", b"text,label\nwave,sea\nmoon,sky\n", [], ["a.csv"]),
    "texts without a word": (
        "a.csv", ("text,label\n" + "wave,sea\nmoon,sky\n" * 20).encode(), ["--min-length", "9"],
        ["a.csv", "column 'text'", "--min-length"],
    ),
    "a vocabulary without a word": (
        "a.csv", GOOD.encode(), ["--min-count", "500"], ["a.csv", "--min-count"],
    ),
    "vectors that are not there": (
        "a.csv", GOOD.encode(), ["--vectors", "no.txt"], ["no.txt"],
    ),
    "a test file that is not there": ("a.csv", GOOD.encode(), ["--test", "no.csv"], ["no.csv"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_data_is_one_line_and_leaves_nothing_behind(run, tmp_path, monkeypatch, name):
    file, content, options, expected = CASES[name]
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(file).write_bytes(content)
    before = sorted(Path().iterdir())
    outcome = run("fit", "text", file, "--out", "runs/new", *TINY, *options)
    assert outcome.code == 2, outcome.err
    assert all(part in outcome.error for part in expected), outcome.error
    assert "Traceback" not in outcome.err
    assert "internal" not in outcome.err
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("command", ["fit text", "evaluate", "predict"])
def test_a_directory_is_named_as_one(run, trained, tmp_path, command):
    words = command.split() + ([] if command == "fit text" else [trained])
    outcome = run(*words, tmp_path)
    assert outcome.code == 2
    assert str(tmp_path) in outcome.error
    assert "directory" in outcome.error or "folder" in outcome.error


def test_an_unknown_label_in_the_test_file_is_found_before_training(run, table, tmp_path):
    other = write_table(tmp_path / "other.csv", count=3)
    other.write_text(other.read_text() + "9,wave tide,lake\n")
    outcome = run("fit", "text", table, "--test", other, "--out", tmp_path / "run", *TINY)
    assert outcome.code == 2
    assert f"{other}, line 5, column 'label': the label 'lake'" in outcome.error
    assert not (tmp_path / "run").exists()


STAGES = [
    "yaml.begun", "json.begun", "json.begun:4", "ckpt.begun", "ckpt.synced", "jsonl.begun",
    "safetensors.begun", "csv.begun", "html.begun",
]  # fmt: skip


@pytest.mark.parametrize(
    "stage",
    [pytest.param(s, marks=[pytest.mark.slow] if i % 4 else []) for i, s in enumerate(STAGES)],
)
def test_a_full_disk_is_one_line_and_no_file_is_half_written(
    run, table, tmp_path, monkeypatch, stage
):
    out = tmp_path / "run"
    monkeypatch.setenv("REPRESENTER_FAILPOINT", f"{stage}:enospc")
    from representer.storage import atomic as failpoints

    failpoints.reset()
    outcome = run("fit", "text", table, "--out", out, *QUICK)
    assert outcome.code == 2
    assert "no space left on device" in outcome.error
    assert "Free some space" in outcome.error
    assert not list(out.rglob("*.tmp")) if out.exists() else True
    monkeypatch.delenv("REPRESENTER_FAILPOINT")
    assert run("fit", "text", table, "--out", out, "--resume", *QUICK).code == 0


def test_a_run_folder_that_cannot_be_made_says_so(run, table, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = run("fit", "text", table, "--out", tmp_path / "file" / "run", *TINY)
    assert outcome.code == 73
    assert str(tmp_path / "file") in outcome.error


# The task of a command where the words do not name it.


FILES = {
    "reviews.csv": ("text,label\n", "text"), "solubility.csv": ("SMILES,logS\n", "molecule"),
    "solubility.tsv": ("id\tsmiles\n", "molecule"), "drugs.sdf": ("", "molecule"),
    "eeg.vhdr": ("", "signal"), "drugs.smi": ("C methane\n", "molecule"),
    "graphs.jsonl": ('{"nodes": [], "edges": []}\n', "graph"),
    "reviews.jsonl": ('{"text": "a", "label": 1}\n', "text"),
    "molecules.jsonl": ('{"smiles": "C", "y": 1}\n', "molecule"),
    "story.txt": ("Once\n", "language"), "eeg.npz": ("", "signal"),
    "mutag/MUTAG_graph_indicator.txt": ("1\n", "graph"), "recordings/a.edf": ("", "signal"),
    "tables/nodes.csv": ("graph,node\n", "graph"),
    "recordings.csv": ("file,label,subject\n", "signal"),
    "headset/recordings.tsv": ("file\tlabel\tsubject\n", "signal"),
    "mails.csv": ("file,subject,body\n", "text"), "corpus/train.txt": ("a\n", "language"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_task_follows_from_the_data(tmp_path, name):
    content, task = FILES[name]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    data = path.parent if "/" in name else path
    words = [str(data), "--splits", "3"]
    assert with_task("compare", words) == [task, *words]
    assert with_task("compare", ["text", *words]) == ["text", *words]
    assert with_task("compare", [*words, "--kind", "graph"]) == ["graph", *words]
    assert with_task("compare", ["--kind=graph", *words]) == ["graph", *words]


def test_the_task_follows_from_the_columns_of_binary_tables(tmp_path):
    book, path = openpyxl.Workbook(), tmp_path / "table.xlsx"
    book.active.append(["SMILES", "logS"])
    book.active.append(["C", 1])
    book.save(path)
    assert with_task("compare", [str(path)])[0] == "molecule"
    pyarrow.parquet.write_table(pyarrow.table({"smiles": ["C"]}), tmp_path / "a.parquet")
    assert with_task("compare", [str(tmp_path / "a.parquet")])[0] == "molecule"
    path.write_text("SMILES\n")
    assert with_task("compare", [str(path)])[0] == "text"


def test_options_that_only_one_task_has_name_it(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("smiles,name\n")
    for words, task in (
        (["--text", "name", "--kind", "regression"], "text"),
        (["--smiles=name"], "molecule"),
    ):
        assert with_task("compare", [str(path), *words])[0] == task


def test_every_command_says_which_task_it_takes(run, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("text,label\n")
    for command, words in (("compare", [path]), ("drift", [path, path])):
        outcome = run(command, *words)
        assert outcome.err.startswith(f"the task is text: representer {command} text\n")
    assert "the task is" not in run("compare", "text", path).err


def test_drift_takes_its_own_options_and_no_running_text(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("Once")
    words = [str(path), str(path), "--limit", "3"]
    assert with_task("drift", words) == ["text", *words]
    with pytest.raises(UsageError, match="representer drift TASK FIRST SECOND"):
        with_task("drift", [*words, "--smiles", "s", "--text", "t"])
    assert with_task("drift", [*words, "--splits", "3"])[0] == "text"  # refused by its parser


def test_drift_does_not_take_series_for_texts(run, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["id,time,value,label", *WALK, ""]))
    message = "seems to be series, which drift does not have. Name another one of text, molecule,"
    assert message in run("drift", path, path).error
    assert with_task("drift", [str(path), str(path), "--smiles", "id"])[0] == "molecule"


def test_json_that_is_nested_too_deeply_is_left_to_its_reader(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("[" * 100_000)
    assert task_of_data(path) == "text"


def test_a_folder_of_tables_of_samples_is_told_to_list_them(run, tmp_path):
    for name in ("a-rest", "b-task"):
        (tmp_path / f"{name}.csv").write_text("time,TP9\n0.0,1.5\n0.1,1.6\n")
    outcome = run("fit", tmp_path, "--out", tmp_path / "run")
    assert outcome.err.startswith("the task is signal")
    assert "recordings.csv (file, label, subject)" in outcome.error
    (tmp_path / "notes.txt").write_text("Once")
    assert task_of_data(tmp_path) == "language"


def test_fit_without_a_task_takes_that_of_the_file_and_says_so(run, tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n")
    outcome = run("fit", path, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert outcome.err.startswith("the task is text: representer fit text\n")
    assert "no rows" in outcome.error or "reviews.csv" in outcome.error


@pytest.mark.parametrize(
    ("cell", "task"),
    [
        ("ACGTACGTAN", "sequence"), ("acgtacgtaa", "sequence"), ("AUGGCUAAGC", "sequence"),
        ("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ", "sequence"), ("A CAT", "text"), ("GATTACA", "text"),
        ("MKTAYIAKQR", "text"), ("a film that is not bad at all, and long", "text"),
    ],
)  # fmt: skip
def test_letters_of_nucleotides_and_amino_acids_are_sequences(cell, task, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("".join(["id,read,bound\n", *(f"{k},{cell},{k % 2}\n" for k in range(9))]))
    assert task_of_data(path) == task


WALK = [f"{k // 8},{k % 8},{k * k % 7}.5,{'ab'[k // 8 % 2]}" for k in range(24)]
TABLES = {
    "smiles": ("compound,y", ["CCO,1", "CC(=O)O,2", "c1ccccc1,3", "[Na+].[Cl-],4"], "molecule"),
    "names of letters": ("name,y", ["NO,1", "SOS,2", "C1,3", "B2,3", "B(1),4"], "text"),
    "grades": ("grade,y", ["B-,1", "C+,2", "C,3", ",4"], "text"),
    "steps": ("id,time,value,label", WALK, "series"),
    "steps, label by content": ("id,time,value,state", WALK, "series"),
    "tweets": ("id,date,comment,likes", [f"{k},2024,a b {k},{k}" for k in range(9)], "text"),
    "columns": (
        ",".join([*(f"v{k}" for k in range(9)), "class"]),
        ["1,2,3,4,5,6,,8,9,a"],
        "series",
    ),
    "columns without a header": (
        "1,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8",
        ["2,1,2,3,4,5,6,7,8"],
        "series",
    ),
    "archive": ("1,-0.1,0.2,-0.3,0.4,-0.1,0.6,0.7,1e-3", ["2,1,2,3,4,-5,6,7,8"], "series"),
    "answers and a remark": (
        ",".join([*(f"q{k}" for k in range(9)), "remark"]),
        ["1,2,3,4,5,1,2,3,4,it was good", "1,2,3,4,5,1,2,3,4,it was too long"],
        "text",
    ),
    "columns, classes of words": (
        ",".join([*(f"v{k}" for k in range(9)), "state"]),
        4 * ["1,2,3,4,5,1,2,3,4,going up stairs"],
        "series",
    ),
    "features": ("age,income,label", ["20,1000,a", "30,2000,b"], "text"),
    "events": ("customer,when,event,churn", ["a,1,login,no", "a,2,buy,no"], "sequence"),
    "events of a cell": ("events,label", ["login;buy,x", "buy,y"], "sequence"),
    "events of patients": ("id,age,event,group", ["1,40,yes,a", "2,50,no,b"], "text"),
    "letters beside texts": ("text,tag", ["a film,GATTACAGATTACA", "a play,ACGTACGTACGT"], "text"),
    "dna beside texts": ("text,dna", ["a film,GATTACAGATTACA", "a play,ACGTACGTACGT"], "sequence"),
    "letters called texts": ("text,label", ["GATTACAGATTACA,x", "ACGTACGTACGT,y"], "sequence"),
    "notes of events": ("event,notes,label", ["login,he was slow today,x", "buy,no,y"], "text"),
    "lists": ("text,genres", ["a film,['Drama']", "a play,['Drama']"], "text"),
    "words in brackets": ("text,mark", ["a film,[good]", "a play,[bad]"], "text"),
    "texts of events": ("event,label", ["a talk in town,x", "music,y"], "text"),
}
JSON = {
    '{"series": [1, 2.5, null], "label": "a"}': "series",
    '{"values": [[1, 2], [3, 4]], "label": "a"}': "series",
    '{"events": ["login", "buy"], "label": "a"}': "sequence",
    '{"title": "a film", "tags": ["good", "long"]}': "text",
    '{"text": "a film", "tokens": ["a", "film"], "label": "x"}': "text",
    '{"text": "a film", "values": [1, 2], "label": "x"}': "text",
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_task_follows_from_the_first_rows_of_a_table(name, tmp_path):
    head, rows, task = TABLES[name]
    path = tmp_path / "data.csv"
    path.write_text("\n".join([head, *rows, ""]))
    assert task_of_data(path) == task


@pytest.mark.parametrize("row", JSON)
def test_the_task_follows_from_the_first_objects(row, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text(3 * f"{row}\n")
    assert task_of_data(path) == JSON[row]


def test_a_table_of_numbers_is_not_taken_for_texts(run, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("age,income,label\n" + "20,1000,a\n30,2000,b\n" * 20)
    outcome = run("fit", path, "--out", tmp_path / "run")
    assert (
        "there are numbers only in 'age', 'income', not texts; numbers in time are series. Name"
        in outcome.error
    )


def test_measurements_of_devices_over_time_are_series_though_some_are_missing(tmp_path):
    path = tmp_path / "data.csv"
    rows = [f"d{k % 3},2024-03-09T10:{k:02}Z,{k}.5,NaN,ok\n" for k in range(30)]
    rows[4] = rows[4].replace("4.5", "n/a").replace("NaN", "1e-6")
    path.write_text("".join(["device,timestamp,heat,strain,state\n", *rows]))
    assert task_of_data(path) == "series"


PEPTIDES = [
    "SIINFEKL", "GILGFVFTL", "NLVPMVATV", "ELAGIGILTV", "KTWGQYWQV", "RMFPNAPYL", "LLWNGPMAV",
    "YLQPRTFLL", "CLGGLLTMV", "KIFGSLAFL", "SLYNTVATL", "AVFDRKSDAK",
]  # fmt: skip
NOUNS = ["ELEPHANT", "CALENDAR", "MOUNTAIN", "SANDWICH", "KEYBOARD", "UMBRELLA", "DINOSAUR"]
CODES = ["CAT", "GAG", "TTA", "ATG"]


@pytest.mark.parametrize(
    ("name", "cells", "task"),
    [
        ("ligand", PEPTIDES, "sequence"), ("ligand", [*PEPTIDES[:2], "", "GHK", "AAX"], "text"),
        ("ligand", [*PEPTIDES, "", "GHK", "AVX"], "sequence"),
        ("peptide", ["GHK", "", "RGD", "KWKLF"], "sequence"), ("DNA", CODES, "sequence"),
        ("codon", CODES, "text"), ("answer", ["CAT", "A+"], "text"), ("dna", ["CAT", "A+"], "text"),
        ("word", NOUNS, "text"), ("sequence", NOUNS, "text"), ("group", ["MALE", "FEMALE"], "text"),
        ("word", [noun.lower() for noun in NOUNS], "text"), ("dna", ["A", "B"], "text"),
        ("protein", ["insulin", "actin", "keratin"], "text"), ("ligand", ["", ""], "text"),
        ("status", ["SHIPPED", "PENDING", "CANCELED", "RETURNED", "ARRIVED"], "text"),
    ],
)  # fmt: skip
def test_short_letters_are_sequences_by_their_number_or_their_column(name, cells, task, tmp_path):
    path = tmp_path / "data.csv"
    rows = [f"{k},{cell},{k % 2}\n" for k, cell in enumerate(cells)]
    path.write_text("".join([f"id,{name},bound\n", *rows]))
    assert task_of_data(path) == task
