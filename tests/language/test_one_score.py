"""One server has one score: `hopscope evaluate`, inspect and lm-eval, each by its own client, over every habit."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import ExitStack
from importlib.util import find_spec
from math import isnan, nan
from pathlib import Path

import pytest

if find_spec("inspect_ai") is None:  # not imported before a test needs it: every worker collects
    pytest.skip("inspect_ai is not installed; run make language", allow_module_level=True)
pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language import lm_eval
from hopscope.language.backends.base import Unreachable
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.evaluation import Evaluation, evaluate
from hopscope.language.layouts.chat import Chat
from hopscope.language.layouts.code import Code
from hopscope.language.layouts.raw import Raw
from hopscope.language.protocols.greedy_lenient import GreedyLenient
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood
from hopscope.language.protocols.resample import Resample
from tests.language.habits_server import HABITS, REFUSED, WORDS, HabitsServer
from tests.language.test_habits import ASKED, HASTY
from tests.language.test_inspect import measures, quiet  # noqa: F401

ROOT = Path(__file__).parents[2]
COUNT = 3
NOTHING = {"accuracy": nan, "valid": 0.0}


def ours(server, layout, protocol):
    """What `hopscope evaluate` says; nothing where it refuses to say anything."""
    endpoint = Endpoint(server.url, patience=HASTY)
    try:
        return evaluate(endpoint, ASKED, layout, protocol, Evaluation(count=COUNT)).row
    except (BadInput, Unreachable):
        return NOTHING
    finally:
        endpoint.close()


#: At what inspect's own client of OpenAI-compatible servers stops; hopscope's provider for inspect does not.
STOPS_INSPECT = {"parts", "no temperature, in a 200"}
INSTEAD = "inspect's client cannot read what .* answers .*; hopscope's own can: --model hopscope/"


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # clients of inspect
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # of content in parts
@pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning")
def test_inspect_says_what_we_say_of_every_habit(quiet, caplog):  # noqa: F811
    from inspect_ai import eval
    from inspect_ai.model import get_model

    from hopscope.language.inspect_tasks import equations

    with ExitStack() as stack:
        asked = [(habit, "openai-api/local/x") for habit in HABITS] + [
            (habit, "hopscope/x") for habit in sorted(STOPS_INSPECT)
        ]
        tasks, of = [], {}
        for habit, model in asked:
            server = stack.enter_context(HabitsServer(habit))
            task = equations(hops=1, count=COUNT, max_tries=2)
            task.model = get_model(model, base_url=server.url, memoize=False)
            tasks.append(task)
            of[server.url] = habit, model, server
        how = {"log_dir": str(quiet / "logs"), "display": "none", "score_display": False, "max_retries": 0}
        logs = eval(tasks, max_tasks=len(tasks), fail_on_error=False, **how)
        assert len(logs) == len(of) == len(tasks)
        for log in logs:
            habit, model, server = of[log.eval.model_base_url]
            mine = ours(server, Chat(), Resample(max_tries=2))
            errors = [sample.error.message for sample in log.samples if sample.error]
            if model != "hopscope/x" and habit in STOPS_INSPECT:
                assert len(errors) == COUNT and all(re.search(INSTEAD, one) for one in errors)
                continue
            found = NOTHING if errors else measures(log)
            assert [found[name] for name in NOTHING] == pytest.approx([mine[name] for name in NOTHING], nan_ok=True), (
                habit,
                model,
            )
            if habit in REFUSED:
                learnt = {name for one in log.samples for name in one.scores["acceptable_answer"].metadata["left_out"]}
                assert sorted(learnt) == json.loads(mine["left_out"]), habit


@pytest.fixture(scope="module")
def in_lm_eval(tmp_path_factory):
    """By habit, what lm-eval says through hopscope's model (`ours`) and through its own clients (`theirs`)."""
    python = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"there is no {python}; `make peers` builds the environment that lm-eval lives in")
    folder = tmp_path_factory.mktemp("lm_eval")
    lm_eval.export(Equations(n_hops=1), folder / "tasks", COUNT, 0)
    command = [python, "-m", "tests.language.lm_eval_served", folder / "tasks"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(folder / "cache")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


#: What is asked in lm-eval, and the same by `hopscope evaluate`. lm-eval reads texts to the end of the first line, as
#: the layout `raw` does.
SAME = (
    ("generate", "exact_match,strict", Raw(), GreedyStrict()),
    ("generate", "exact_match,lenient", Raw(), GreedyLenient()),
    ("choice", "acc,none", Code(), LogLikelihood()),
)


@pytest.mark.peers
@pytest.mark.parametrize("habit", HABITS)
def test_lm_eval_says_what_we_say_of_every_habit(in_lm_eval, habit):
    """By hopscope's model: one score, or one sentence from both. What has not the form asked for is not right."""
    with HabitsServer(habit) as server:
        for task, measure, layout, protocol in SAME:
            found, mine = in_lm_eval[habit]["ours"][task], ours(server, layout, protocol)
            if isinstance(found, str):
                assert mine is NOTHING and "\n" not in found
            else:
                assert mine is not NOTHING and found[measure] == (0 if isnan(mine["accuracy"]) else mine["accuracy"])
                assert protocol.scores or sorted(in_lm_eval[habit]["left_out"]) == json.loads(mine["left_out"])


@pytest.mark.peers
def test_lm_eval_is_refused_where_one_of_its_tasks_was_cut_off(in_lm_eval):
    """lm-eval asks the questions of all tasks at once: those of one alone would all count as wrong."""
    assert in_lm_eval["two tasks"]["ours"].startswith("all 2 answers of habits were cut off before they ended")


@pytest.mark.peers
@pytest.mark.parametrize("habit", [habit for habit in WORDS if habit != "cut"])
def test_what_lm_evals_own_clients_say_is_what_we_say(in_lm_eval, habit):
    """Of whole texts; why one ended is not passed on. At fields that are refused they stop (docs/endpoints.md)."""
    with HabitsServer(habit) as server:
        for task, measure, layout, protocol in SAME:
            if task in in_lm_eval[habit]["theirs"]:
                accuracy = ours(server, layout, protocol)["accuracy"]
                assert in_lm_eval[habit]["theirs"][task][measure] == (0 if isnan(accuracy) else accuracy)
