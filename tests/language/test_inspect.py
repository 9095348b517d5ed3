"""The tasks for inspect_ai: found by name, and the same score for the same answers as our own runner gives."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

if importlib.util.find_spec("inspect_ai") is None:  # not imported before a test needs it: every worker collects
    pytest.skip("inspect_ai is not installed; run make language", allow_module_level=True)

from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language.backends.known import BEHAVIOURS, Known
from hopscope.language.benchmarking import ask_benchmark
from hopscope.language.benchmarks.hypothesis_refinement import HypothesisRefinement
from hopscope.language.evaluation import Evaluation, evaluate
from hopscope.language.layouts.chat import Chat
from hopscope.language.protocols.resample import Resample
from tests.fault_server import FaultServer, oracle, wavering
from tests.language.habits_server import HabitsServer

#: inspect leaves streams open, which Python says when it sweeps them up, and uses tenacity as it used to be.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
]


#: inspect reads the files of all packages that are installed once for every task, in a second each.
installed = cache(packages_distributions)


@pytest.fixture(scope="module", autouse=True)
def imported():
    """What inspect's modules hold lasts: sweeping up after each test (see below) need not look through it."""
    import inspect_ai  # noqa: F401

    gc.collect()
    gc.freeze()


@pytest.fixture
def quiet(tmp_path, monkeypatch):
    """inspect in a folder of its own, without a display."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("inspect_ai._util.package.packages_distributions", installed)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    monkeypatch.setenv("LOCAL_API_KEY", "none")
    yield tmp_path
    gc.collect()  # while the filter above holds


def run(task, model, folder, **more):
    """A finished evaluation by inspect."""
    from inspect_ai import eval

    log = eval(task, model=model, log_dir=str(folder / "logs"), display="none", score_display=False, **more)[0]
    assert log.status == "success", log.error
    return log


def measures(log):
    return {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}


def labels(log):
    """What each question got, by its number."""
    scores = [(sample.metadata["index"], sample.scores["acceptable_answer"]) for sample in log.samples]
    return {index: (score.answer, score.metadata["tries"]) for index, score in scores}


def ours(backend, formulation, count):
    """The same evaluation by our own runner."""
    return evaluate(backend, formulation, Chat(), Resample(), Evaluation(count=count))


def judged(result):
    return {one.index: (one.label, one.tries) for one in result.judged}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_known_model_gets_the_same_in_both_runners(behaviour, quiet):
    from hopscope.language.inspect_tasks import equations

    formulation, known = Equations(n_hops=2), Known(behaviour)
    known.learn(formulation, Chat(), 0, range(10))
    mine = ours(known, formulation, 10)
    log = run(equations(hops=2, count=10), f"hopscope/known:{behaviour}", quiet)
    assert labels(log) == judged(mine)
    theirs = measures(log)
    for name in ("accuracy", "low", "high", "valid", "tries", "run_outs"):
        assert theirs[name] == pytest.approx(mine.row[name], nan_ok=True), name


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("kingdoms", "filler_tokens(n_numbers=5)"),
        ("relatives", "repeated_problem(n_times=2)"),
        ("functions", "filler_tokens(n_numbers=5)"),
        ("lives_with", "repeated_problem(n_times=2)"),
        ("equations", "chain_of_thought"),
        ("equations", "filler_tokens(by=chain_of_thought, n_numbers=5)"),
    ],
)
def test_a_question_put_otherwise_gets_the_same_in_both_runners(name, protocol, quiet):
    from hopscope.language import inspect_tasks

    formulation, chosen = catalogue.find("formulations", name)(), catalogue.chosen("language.protocols", protocol)
    for behaviour in ("last_line", "chatty"):
        mine = evaluate(Known(behaviour), formulation, Chat(), chosen, Evaluation(count=12))
        task = getattr(inspect_tasks, name)(count=12, protocol=protocol)
        put = chosen.put(formulation)
        assert [sample.input for sample in task.dataset] == [put.question(0, index).prompt for index in range(12)]
        log = run(task, f"hopscope/known:{behaviour}", quiet)
        assert labels(log) == judged(mine)
        assert measures(log)["accuracy"] == mine.row["accuracy"]
        assert (mine.row["accuracy"] == 1) == (behaviour == "chatty")


def test_known_scores_are_those_that_follow_from_what_is_said(quiet):
    from hopscope.language.inspect_tasks import equations

    right = run(equations(hops=3, count=12), "hopscope/known:oracle", quiet)
    assert measures(right)["accuracy"] == 1
    ones = run(equations(hops=3, count=12), "hopscope/known:always_1", quiet)
    answers = [Equations(n_hops=3).question(0, i).answer for i in range(12)]
    assert measures(ones)["accuracy"] == answers.count("1") / 12
    silent = run(equations(hops=3, count=12, max_tries=3), "hopscope/known:refuses", quiet)
    assert measures(silent)["run_outs"] == 12
    assert {sample.scores["acceptable_answer"].value for sample in silent.samples} == {"N"}


@pytest.mark.parametrize("name", catalogue.names("formulations"))
def test_every_formulation_is_a_task_with_its_own_questions(name, quiet):
    from hopscope.language import inspect_tasks

    made = getattr(inspect_tasks, name)(count=3, seed=5, chains=3 if name == "equations" else 4)
    kind = catalogue.find("formulations", name)
    questions = [(kind(n_chains=3) if name == "equations" else kind()).question(5, index) for index in range(3)]
    assert [sample.input for sample in made.dataset] == [question.prompt for question in questions]
    assert [sample.target for sample in made.dataset] == [question.answer for question in questions]


@pytest.mark.parametrize("name", catalogue.names("language.benchmarks"))
@pytest.mark.parametrize("behaviour", ["oracle", "uniform", "refuses"])
def test_a_benchmark_gets_the_same_in_both_runners(name, behaviour, quiet):
    """Whoever knows scores exactly 1, and whoever is malformed 0; inspect's marks are ours, one by one."""
    from hopscope.language import inspect_tasks

    benchmark, known = catalogue.find("language.benchmarks", name)(), Known(behaviour)
    known.learn(benchmark, Chat(), 0, range(20))
    mine = ask_benchmark(known, benchmark, Chat(), settings=Evaluation(count=20))
    log = run(getattr(inspect_tasks, name)(count=20), f"hopscope/known:{behaviour}", quiet)
    found = {sample.metadata["index"]: sample.scores["marks"] for sample in log.samples}
    for one in mine.judged:
        assert found[one.index].metadata == {**one.mark.measures, "valid": float(one.mark.valid)}
        assert found[one.index].value == one.mark.measures[benchmark.MEASURES[0]]
    theirs = measures(log)
    for row in mine.rows:
        ends = theirs[row["measure"]], theirs[f"{row['measure']}_low"], theirs[f"{row['measure']}_high"]
        assert ends == pytest.approx((row["value"], row["low"], row["high"]))
    if behaviour != "uniform":
        assert {theirs[measure] for measure in (*benchmark.MEASURES, "valid")} == {float(behaviour == "oracle")}


@pytest.mark.parametrize("name", catalogue.names("language.benchmarks"))
def test_lenient_reading_is_a_setting(name, quiet):
    from hopscope.language import inspect_tasks

    for lenient in (False, True):
        log = run(getattr(inspect_tasks, name)(count=3, lenient=lenient), "hopscope/known:chatty", quiet)
        assert measures(log)["valid"] == float(lenient)


def test_a_benchmark_is_asked_without_what_a_server_refuses(quiet):
    from hopscope.language.inspect_tasks import hypothesis_refinement

    lists = HypothesisRefinement()
    answers = {Chat().render(lists, one).text: one.answer for one in (lists.question(0, index) for index in range(2))}
    with HabitsServer("no temperature", answers.__getitem__) as server:
        log = run(hypothesis_refinement(count=2), "openai-api/local/x", quiet, model_base_url=server.url)
    assert measures(log)["raw"] == measures(log)["valid"] == 1
    assert [sample.store["left_out"] for sample in log.samples] == [["temperature"]] * 2


def test_what_cannot_be_is_refused_in_a_sentence():
    from hopscope.language.inspect_tasks import equations, induction_bench

    with pytest.raises(BadInput, match="layout=chat, or hopscope lm evaluate --layout code"):
        equations(layout="code")
    with pytest.raises(BadInput, match="did you mean"):
        equations(hop=2)
    with pytest.raises(BadInput, match="hops must be at least 1"):
        equations(hops=0)
    with pytest.raises(BadInput, match="letters must be at least 2"):
        induction_bench(letters=1)
    with pytest.raises(BadInput, match="max-tokens must be at least 1"):
        induction_bench(max_tokens=0)
    with pytest.raises(BadInput, match="GreedyLenient has no setting 'max_tries'"):
        equations(protocol="filler_tokens(by=greedy_lenient)", max_tries=3)


def test_the_loopback_server_gets_the_same_through_inspect_and_through_our_endpoint(quiet):
    from hopscope.language.backends.endpoint import Endpoint
    from hopscope.language.inspect_tasks import equations

    with FaultServer(answer=wavering) as server:
        log = run(equations(hops=2, count=20), "openai-api/local/loopback", quiet, model_base_url=server.url)
        asked, endpoint = server.requests, Endpoint(server.url)
        mine = ours(endpoint, Equations(n_hops=2), 20)
        endpoint.close()
        assert server.requests == 2 * asked  # the same requests, rejected tries and all
    assert labels(log) == judged(mine)
    assert measures(log)["tries"] == asked / 20 > 1
    assert 0 < measures(log)["accuracy"] < 1


def test_the_command_finds_the_task_by_its_entry_point(quiet):
    """`inspect eval hopscope/equations`, in a process of its own."""
    inspect = Path(sys.executable).with_name("inspect")
    if not inspect.exists():
        pytest.skip("there is no command inspect beside this Python; run make language")
    with FaultServer(answer=oracle) as server:
        command = [inspect, "eval", "hopscope/equations", "--model", "openai/loopback", "-T", "hops=2", "-T", "count=4"]
        where = ["--model-base-url", server.url, "-M", "responses_api=false", "--log-dir", "logs", "--display", "plain"]
        environment = {**os.environ, "OPENAI_API_KEY": "none"}
        done = subprocess.run([*command, *where], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "accuracy 1.000" in " ".join(done.stdout.split())


def test_a_real_llama_server_can_be_evaluated(quiet, llama_server):
    from hopscope.language.inspect_tasks import equations

    log = run(
        equations(hops=1, count=3, max_tries=2),
        "openai-api/local/smollm2",
        quiet,
        model_base_url=llama_server,
        max_connections=1,
    )
    assert len(log.samples) == 3
    assert all(1 <= tries <= 2 for _, tries in labels(log).values())
