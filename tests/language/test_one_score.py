"""One server has one score: `hopscope evaluate`, inspect and lm-eval, each by its own client, over every habit."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from math import isnan, nan
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed; run make language")
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
from tests.language.habits_server import FORMS, HABITS, REFUSED, HabitsServer
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


#: What inspect's own client of OpenAI-compatible servers makes an error, so that no score is said.
STOPS_INSPECT = {"parts", "no temperature, in a 200"}


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # clients of inspect
@pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning")
def test_inspect_says_what_we_say_of_every_habit(quiet, caplog):  # noqa: F811
    from inspect_ai import eval
    from inspect_ai.model import get_model

    from hopscope.language.inspect_tasks import equations

    with ExitStack() as stack:
        servers = {habit: stack.enter_context(HabitsServer(habit)) for habit in HABITS}
        tasks = {}
        for server in servers.values():
            task = tasks[server.url] = equations(hops=1, count=COUNT, max_tries=2)
            task.model = get_model("openai-api/local/x", base_url=server.url, memoize=False)
        how = {"log_dir": str(quiet / "logs"), "display": "none", "score_display": False, "max_retries": 0}
        logs = eval(list(tasks.values()), max_tasks=len(HABITS), fail_on_error=False, **how)
        theirs = {log.eval.model_base_url: log for log in logs}
        assert len(theirs) == len(HABITS)
        for habit, server in servers.items():
            log, mine = theirs[server.url], ours(server, Chat(), Resample(max_tries=2))
            answered = [sample for sample in log.samples if not sample.error]
            found = measures(log) if answered else NOTHING
            wanted = NOTHING if habit in STOPS_INSPECT else mine
            assert [found[name] for name in NOTHING] == pytest.approx(
                [wanted[name] for name in NOTHING], nan_ok=True
            ), habit
            if habit in REFUSED and answered:
                learnt = {name for one in answered for name in one.scores["acceptable_answer"].metadata["left_out"]}
                assert sorted(learnt) == json.loads(mine["left_out"]), habit


#: At what lm-eval's client stops, and what it does not tell its tasks: why a text ended, an error in a 200, and content
#: in parts, both of which are empty texts to it.
STOPS_LM_EVAL = {*REFUSED, "no seed, in its own words", "stream", "page"}
UNTOLD = {"parts", "no temperature, in a 200", "cut"}


@pytest.mark.peers
def test_lm_eval_says_what_we_say_of_every_habit(tmp_path):
    """Its texts are read to the end of the first line, as in the layout `raw`; where we refuse, nothing is right."""
    python = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"there is no {python}; `make peers` builds the environment that lm-eval lives in")
    lm_eval.export(Equations(n_hops=1), tmp_path / "tasks", COUNT, 0)
    command = [python, "-m", "tests.language.lm_eval_served", tmp_path / "tasks"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.strip().split("\n")[-1])
    for habit in HABITS:
        found = theirs[habit]
        with HabitsServer(habit) as server:
            if isinstance(found["generate"], str):
                assert habit in STOPS_LM_EVAL
            elif habit not in UNTOLD:
                for name, protocol in (("strict", GreedyStrict()), ("lenient", GreedyLenient())):
                    mine = ours(server, Raw(), protocol)["accuracy"]
                    mine = 0.0 if isnan(mine) else mine
                    assert found["generate"][f"exact_match,{name}"] == pytest.approx(mine), (habit, name)
            if isinstance(found.get("choice"), str):
                assert habit in STOPS_LM_EVAL | UNTOLD
            elif "choice" in found:  # texts in a wrong form stop us, for they are held against the scores
                mine = ours(server, Code(), LogLikelihood())["accuracy"]
                assert found["choice"]["acc,none"] == 1 and (mine == 1 or habit in FORMS), habit
