"""Files of one's own, in a folder or an installed package: found, run, blamed for their own errors, and recorded."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from hopscope import BadInput, load, train
from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue, outside
from hopscope.experiments.runner import reproduce
from hopscope.models.transformer import Architecture
from hopscope.training.loop import Interrupted

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin" / "hopscope_example"
SMALL = ["--steps", "4", "--batch", "4", "--val-size", "4", "--threads", "1"]


@pytest.fixture
def lab(tmp_path, monkeypatch) -> Path:
    """A copy of the example as a plain folder, whose task has a helper file; named by HOPSCOPE_PATH."""
    folder = tmp_path / "lab"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    task = folder / "tasks" / "running_sum.py"
    task.write_text(task.read_text().replace("import math\n", "import math\nfrom .base_names import HOP\n", 1))
    task.write_text(task.read_text().replace('("sum",)', "(HOP,)"))
    (folder / "tasks" / "base_names.py").write_text('"""A helper."""\n\nHOP = "sum"\n')
    monkeypatch.setenv(outside.VARIABLE, str(folder))
    return folder


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def config(**training) -> Config:
    recipe = {"steps": 8, "batch": 4, "val_size": 4, "log_every": 2, "checkpoints": "4", **training}
    return Config(
        catalogue.find("tasks", "running_sum")(length=4), Architecture(n_layers=1, d_model=8), Training(**recipe)
    )


def stopped(folder: Path, **training) -> None:
    """A run that was stopped half-way."""
    stops = iter([False] * 4 + [True])
    with pytest.raises(Interrupted):
        train(config(**training), folder, threads=1, compile="off", should_stop=lambda: next(stops))


# Finding ---------------------------------------------------------------------------------------------------------


def test_a_folder_of_ones_own_is_searched_after_ours(lab):
    assert {"running_sum", "retrieval"} <= set(catalogue.names("tasks"))
    assert catalogue.find("models", "elman").__module__ == f"{outside.package_of(lab)}.models.elman"
    assert catalogue.module("experiments", "parity").RunningSum is catalogue.find("tasks", "running_sum")
    assert [root.outside for root in catalogue.roots("tasks")] == sorted(
        root.outside for root in catalogue.roots("tasks")
    )


def test_without_it_there_is_none():
    assert "running_sum" not in catalogue.names("tasks")
    with pytest.raises(BadInput, match=r"there is no .running_sum. in tasks; .* --with DIR"):
        catalogue.find("tasks", "running_sum")


def test_who_brought_a_folder_is_not_told_how_to(lab):
    with pytest.raises(BadInput, match="there is no 'zzz' in tasks") as refused:
        catalogue.find("tasks", "zzz")
    assert "--with" not in str(refused.value)


def test_it_hides_no_module_of_another_name(lab):
    (lab / "json.py").write_text("raise RuntimeError")
    (lab / "tasks" / "math.py").write_text("raise RuntimeError")
    assert catalogue.find("tasks", "running_sum")
    assert str(lab) not in sys.path and "tasks" not in sys.modules


def test_several_folders_are_searched_and_one_twice_is_one(lab, tmp_path, monkeypatch):
    other = tmp_path / "other"
    (other / "measures").mkdir(parents=True)
    (other / "measures" / "nothing_yet.py").write_text('"""Nothing (ours)."""\n')
    monkeypatch.setenv(outside.VARIABLE, os.pathsep.join([str(lab), str(other), "", str(lab / ".." / "lab")]))
    assert "nothing_yet" in catalogue.names("measures") and "running_sum" in catalogue.names("tasks")


def test_commands_are_ours_alone(lab):
    (lab / "cli" / "commands").mkdir(parents=True)
    (lab / "cli" / "commands" / "train.py").write_text("")
    assert catalogue.module("cli.commands", "train").__name__ == "hopscope.cli.commands.train"


def test_a_name_that_ours_has_is_refused_with_both_places(lab):
    shutil.copy(lab / "tasks" / "running_sum.py", lab / "tasks" / "retrieval.py")
    with pytest.raises(BadInput, match=rf"'retrieval' both in hopscope\.tasks and in {lab / 'tasks'}; rename"):
        catalogue.names("tasks")


def test_a_folder_that_is_not_there_is_refused(capsys, tmp_path):
    assert main(["--with", str(tmp_path / "none"), "list"]) == 2
    err = capsys.readouterr().err
    complaint = (
        f"{tmp_path / 'none'}, named by --with or HOPSCOPE_PATH, is not a folder; make it first, or name another"
    )
    assert err == f"hopscope: {complaint}\n"
    assert outside.VARIABLE not in os.environ


# The command line -------------------------------------------------------------------------------------------------


def test_with_names_a_folder_for_one_command(capsys):
    assert main(["--with", str(EXAMPLE), "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert "running_sum" in [v["name"] for v in listed["tasks"]] and "elman" in [v["name"] for v in listed["models"]]
    assert main(["list", "--json"]) == 0
    assert "running_sum" not in capsys.readouterr().out


def test_workers_of_a_sweep_find_it_too(tmp_path, capsys):
    """The workers are processes of their own."""
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results"), "--json"]
    assert main(["--with", str(EXAMPLE), "sweep", "parity", "--workers", "1", *where]) == 0
    assert json.loads(capsys.readouterr().out)["done"]


def test_listing_imports_none_of_it(lab):
    (lab / "tasks" / "loud.py").write_text('"""A loud task."""\nraise RuntimeError("imported")\n')
    code = "import sys; from hopscope.cli import main; main(['list', 'tasks'])"
    code += "; print('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "A loud task." in done.stdout and done.stderr == "False\n"


# Errors -----------------------------------------------------------------------------------------------------------


UNFINISHED = '''"""A task."""

from hopscope.tasks.base import Task


class Half(Task):
    """Begun."""
'''


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('"""A task."""\nx = = 1\n', "line 2: SyntaxError: invalid syntax"),
        ('"""A task."""\nimport no_such_module\n', "line 2: ModuleNotFoundError: No module named 'no_such_module'"),
        ('"""A task."""\n\n\ndef f():\n    return 1 / 0\n\n\nf()\n', "line 5: ZeroDivisionError: division by zero"),
        (UNFINISHED, "correct, d_output, draw, hop_losses, hop_names, inputs, n_positions, problem, "),
        ('"""A task."""\n', "must define exactly one concrete class whose base is in tasks/base.py, or a function"),
    ],
)
def test_an_error_in_it_is_one_sentence_with_file_and_line(lab, capsys, text, complaint):
    (lab / "tasks" / "broken.py").write_text(text)
    assert main(["train", "broken"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(lab / "tasks" / "broken.py") in err and complaint in err


def test_list_names_the_line_that_cannot_be_read(lab, capsys):
    (lab / "tasks" / "broken.py").write_text('"""A task."""\nx = = 1\n')
    assert main(["list", "tasks"]) == 2
    assert capsys.readouterr().err == f"hopscope: {lab / 'tasks' / 'broken.py'}, line 2: SyntaxError: invalid syntax\n"


def test_an_error_while_it_runs_is_one_sentence_too(lab, capsys):
    task = lab / "tasks" / "running_sum.py"
    task.write_text(task.read_text().replace('return draw["digits"]\n', 'return draw["digit"]\n', 1))
    assert main(["sample", "running_sum"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "running_sum.py, line " in err and err.endswith("KeyError: 'digit'\n")


def test_an_experiment_that_is_not_whole_says_what_it_lacks(lab, capsys):
    (lab / "studies" / "parity" / "experiments" / "half.py").write_text('"""Half (ours)."""\nSECONDS = {}\n')
    assert main(["reproduce", "half"]) == 2
    assert "half.py must define runs, table, figure, claims" in capsys.readouterr().err


# Records ----------------------------------------------------------------------------------------------------------


def test_a_session_records_every_file_that_the_run_uses(lab, tmp_path):
    """The task, the helper that it imports, and the model; not what else is in the folder."""
    task, model = (catalogue.find(*which)() for which in (("tasks", "running_sum"), ("models", "elman")))
    run = train(Config(task, model, Training(steps=1, batch=4, val_size=4)), tmp_path / "run", threads=1)
    used = ("tasks/running_sum.py", "tasks/base_names.py", "models/elman.py")
    assert run.sessions[0]["environment"]["plugins"] == {name: sha256(lab / name) for name in used}
    assert "experiment" not in run.sessions[0]
    assert json.loads((run.path / "config.json").read_text())["task"]["name"] == "running_sum"


def test_a_run_of_ours_records_nothing(lab, tmp_path):
    assert main(["train", "induction", *SMALL, "--layers", "1", "--d-model", "8", "--out", str(tmp_path / "run")]) == 0
    assert "plugins" not in load(tmp_path / "run").sessions[0]["environment"]


def test_an_experiment_of_ones_own_is_recorded_with_its_runs(lab, tmp_path):
    outcome = reproduce("parity", "quick", runs=tmp_path / "runs", results=tmp_path / "results")
    session = load(outcome.trained[0]).sessions[0]
    name = "studies/parity/experiments/parity.py"
    assert session["experiment"][name] == sha256(lab / name)
    assert name not in session["environment"]["plugins"]  # no bit of the run depends on it


def test_resuming_with_another_file_says_so(lab, tmp_path):
    stopped(tmp_path / "run")
    file = lab / "tasks" / "base_names.py"
    before = sha256(file)
    file.write_text(file.read_text() + "# changed\n")
    words = f"tasks/base_names.py={before[:12]} before, tasks/base_names.py={sha256(file)[:12]} now"
    with pytest.warns(UserWarning, match=f"begun with other plugins: .*no longer bit-exact .*{words}"):
        run = train(config(), tmp_path / "run", threads=1, compile="off")
    assert run.done and not run.bit_exact


def test_loading_with_another_file_says_so(lab, tmp_path):
    train(config(), tmp_path / "run", threads=1, compile="off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path / "run")
    file = lab / "tasks" / "running_sum.py"
    file.write_text(file.read_text() + "# changed\n")
    with pytest.warns(
        UserWarning, match="trained with other versions of your files than now .plugins: tasks/running_sum"
    ):
        load(tmp_path / "run")
    with pytest.warns(UserWarning, match="trained with other versions of your files"):
        train(config(), tmp_path / "run", threads=1, compile="off")


def test_a_run_whose_task_is_not_here_says_how_to_bring_it(lab, tmp_path, monkeypatch, capsys):
    train(config(), tmp_path / "run", threads=1, compile="off")
    monkeypatch.delenv(outside.VARIABLE)
    assert main(["show", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "there is no 'running_sum' in tasks" in err
    assert "it was trained with tasks/base_names.py, tasks/running_sum.py" in err
    assert "hopscope --with DIR, or HOPSCOPE_PATH=DIR" in err
    assert main(["--with", str(lab), "show", str(tmp_path / "run")]) == 0
