"""`hopscope lm ask`: questions as the paper prints them, as JSON, and as tasks for lm-eval, which scores them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.formulations.base import Question
from hopscope.formulations.equations import Equations
from hopscope.formulations.functions import Functions
from hopscope.language.lm_eval import export
from hopscope.language.protocols.chain_of_thought import ChainOfThought
from hopscope.language.protocols.filler_tokens import FillerTokens
from hopscope.language.protocols.repeated_problem import RepeatedProblem
from tests.paper_prompts import EXAMPLES
from tests.solver import solve

ROOT = Path(__file__).parents[2]
FIVE = list(EXAMPLES)
COUNT = 40


@pytest.fixture
def ask(capsys):
    """Run `hopscope lm ask`; returns its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["ask", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def test_text_is_as_in_appendix_a(ask):
    code, out, _ = ask("equations", "--hops", 5, "--chains", 4, "--count", 3, "--seed", 0)
    assert code == 0
    shown = out.rstrip("\n").split("\n\n")
    assert len(shown) == 3
    for index, text in enumerate(shown):
        made = Equations().question(0, index)
        assert text == f"{made.prompt}\nCorrect: {solve(made.prompt)}\nAcceptable: 0, 1, 2, 3"


@pytest.mark.parametrize("name", FIVE)
def test_json_is_a_list_of_questions(ask, name):
    code, out, _ = ask(name, "--count", 2, "--seed", 9, "--json")
    assert code == 0
    found = json.loads(out)
    assert [list(question) for question in found] == [["prompt", "answer", "acceptable", "chain", "spans"]] * 2
    assert all(solve(question["prompt"]) == question["answer"] for question in found)
    assert found[0]["prompt"] != found[1]["prompt"]
    for question in found:
        (*_, last) = question["spans"]
        assert last["role"] == "query" and question["prompt"][last["start"] : last["end"]] in question["chain"][:2]


def test_settings_of_a_formulation_are_options(ask):
    code, out, _ = ask("functions", "--tables", "independent", "--chains", 3, "--json")
    assert code == 0
    assert json.loads(out)[0] == json.loads(
        json.dumps(Functions(n_chains=3, tables="independent").question(0, 0).as_dict())
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("relatives", "--hops", 5), "relatives always has 4 hops"),
        (("kingdoms", "--hops", 6), "hops must be at most 5"),
        (("equations", "--hops", 14), "letters for 52 variables"),
        (("equations", "--tables", "latin"), "no such option"),
        (("sonnets",), "no such command"),
        (("equations", "--count", 0), "count"),
    ],
)
def test_bad_questions_are_refused_in_one_sentence(ask, arguments, words):
    code, out, err = ask(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_asking_loads_no_torch():
    code = (
        "import sys; from hopscope.cli import main; main(['ask', 'kingdoms', '--json']); "
        "print([m for m in ('torch', 'numpy', 'transformers', 'lm_eval') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.strip() == "[]"
    assert len(json.loads(done.stdout)) == 1


# lm-eval -------------------------------------------------------------------------------------------------------------


def read_yaml(path: Path) -> dict:
    """Our YAML has one setting a line, each with a JSON value."""
    return {name: json.loads(value) for name, value in (line.split(": ", 1) for line in path.read_text().splitlines())}


def test_export_writes_data_and_two_tasks(ask, tmp_path):
    folder = tmp_path / "new" / "tasks"
    code, out, _ = ask("functions", "--count", 5, "--seed", 3, "--export", folder, "--json")
    assert code == 0
    name = "hopscope_functions_2_hops_4_chains_latin"
    assert json.loads(out) == {"folder": str(folder), "tasks": [f"{name}_choice", f"{name}_generate"], "questions": 5}
    assert {p.name for p in folder.iterdir()} == {f"{name}.jsonl", f"{name}_choice.yaml", f"{name}_generate.yaml"}
    for line, index in zip((folder / f"{name}.jsonl").read_text().splitlines(), range(5), strict=True):
        made, document = Functions().question(3, index), json.loads(line)
        assert document["prompt"] == made.prompt
        assert document["continued"] == f"{made.facts}\n{made.stem}"
        assert document["acceptable"][document["right"]] == document["answer"] == solve(made.prompt)
    for task in ("choice", "generate"):
        settings = read_yaml(folder / f"{name}_{task}.yaml")
        assert settings["dataset_kwargs"]["data_files"]["test"] == str(folder / f"{name}.jsonl")
        assert settings["metadata"]["seed"] == 3


def test_the_yaml_is_yaml(tmp_path):
    yaml = pytest.importorskip("yaml", reason="yaml is not installed; run make setup")
    export(Equations(), tmp_path, 1, 0)
    for path in tmp_path.glob("*.yaml"):
        assert yaml.safe_load(path.read_text()) == read_yaml(path)


def test_the_filters_tell_strict_from_lenient(tmp_path):
    export(Equations(n_hops=2, n_chains=12), tmp_path, 1, 0)
    (path,) = tmp_path.glob("*generate.yaml")
    strict, lenient = (way["filter"][1]["regex_pattern"] for way in read_yaml(path)["filter_list"])
    assert re.findall(strict, " 11\n") == ["11"]
    assert re.findall(strict, "It is 11") == re.findall(strict, "11 or 1") == re.findall(strict, "12") == []
    assert re.findall(lenient, "1, no: s is 10.") == ["1", "10"]
    assert re.findall(lenient, "112 or 5a") == []


def test_a_folder_that_cannot_be_made_is_said_so(ask, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = ask("equations", "--export", tmp_path / "file" / "tasks")
    assert code in (1, 2)
    assert err.startswith("hopscope: could not write") and err.count("\n") == 1


def asked_by_lm_eval(folder: Path, *rules: str) -> dict[str, dict[str, dict[str, float]]]:
    """The scores of models of known answer on all tasks of a folder, by rule and task, without a network."""
    python = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"there is no {python}; `make peers` builds the environment that lm-eval lives in")
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder.parent / "cache")}
    done = subprocess.run(
        [python, "-m", "bench.lm_eval_known", folder, *rules],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **offline},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


@pytest.fixture(scope="module")
def lm_eval_scores(tmp_path_factory) -> dict[str, dict[str, dict[str, float]]]:
    """By model and task."""
    folder = tmp_path_factory.mktemp("lm-eval") / "tasks"
    for name in FIVE:
        export(catalogue.find("formulations", name)(), folder, COUNT, 5)
    return asked_by_lm_eval(folder)


@pytest.mark.peers
def test_benchmarks_get_exactly_their_score_in_lm_eval(tmp_path):
    names = catalogue.names("language.benchmarks")
    made = {name: catalogue.find("language.benchmarks", name)() for name in names}
    for benchmark in made.values():
        export(benchmark, tmp_path / "tasks", COUNT, 5)
    found = asked_by_lm_eval(tmp_path / "tasks", "oracle", "first", "chatty")
    for name, benchmark in made.items():
        first = [one.acceptable[0] == one.answer for one in (benchmark.question(5, index) for index in range(COUNT))]
        share = {"oracle": (1.0, 1.0), "first": (sum(first) / COUNT,) * 2, "chatty": (1.0, 0.0)}
        for rule, (chosen, written) in share.items():
            choice, text = (
                next(one for task, one in found[rule].items() if task.startswith(f"hopscope_{name}_") and way in task)
                for way in ("_choice", "_generate")
            )
            assert choice == {"acc,none": pytest.approx(chosen)}
            assert text == {"exact_match,strict": pytest.approx(written)}


@pytest.mark.peers
def test_questions_put_otherwise_get_exactly_their_score_in_lm_eval(tmp_path):
    ways = {
        "kingdoms": FillerTokens(n_numbers=5),
        "relatives": RepeatedProblem(n_times=2),
        "equations": ChainOfThought(),
        "lives_with": FillerTokens(by="chain_of_thought", n_numbers=5),
    }
    for name, protocol in ways.items():
        export(catalogue.find("formulations", name)(), tmp_path / "tasks", COUNT, 5, protocol)
    found = asked_by_lm_eval(tmp_path / "tasks", "oracle", "first", "chatty")
    for name, protocol in ways.items():
        made = [catalogue.find("formulations", name)().question(5, index) for index in range(COUNT)]
        first = sum(question.acceptable[0] == question.answer for question in made) / COUNT
        assert 0 < first < 1
        for model, accuracy in {"oracle": 1.0, "first": first, "chatty": 1.0}.items():
            scores = {task: one for task, one in found[model].items() if task.startswith(f"hopscope_{name}_")}
            assert all(protocol.name() in task for task in scores)
            told = {way: value for one in scores.values() for way, value in one.items()}
            strict = 0.0 if model == "chatty" else accuracy
            direct = {"acc,none": accuracy, "exact_match,strict": strict, "exact_match,lenient": accuracy}
            assert told == pytest.approx(direct if protocol.direct else {"exact_match,thoughts": accuracy})


def last_value(question: Question) -> str:
    return re.findall(r"\b(?:" + "|".join(question.acceptable) + r")\b", question.facts)[-1]


@pytest.mark.peers
@pytest.mark.parametrize("name", FIVE)
def test_known_answers_get_exactly_their_score_in_lm_eval(lm_eval_scores, name):
    made = [catalogue.find("formulations", name)().question(5, index) for index in range(COUNT)]
    share = {
        "oracle": 1.0,
        "chatty": 1.0,
        "last": sum(last_value(question) == question.answer for question in made) / COUNT,
        "first": sum(question.acceptable[0] == question.answer for question in made) / COUNT,
    }
    for model, accuracy in share.items():
        scores = {task: found for task, found in lm_eval_scores[model].items() if task.startswith(f"hopscope_{name}_")}
        assert scores.pop(next(task for task in scores if task.endswith("_choice"))) == {
            "acc,none": pytest.approx(accuracy)
        }
        (generated,) = scores.values()
        assert generated["exact_match,lenient"] == pytest.approx(accuracy)
        assert generated["exact_match,strict"] == pytest.approx(0.0 if model == "chatty" else accuracy)
