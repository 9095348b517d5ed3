"""Evaluations of an endpoint that fails, dies or is refused, and of an evaluator that is killed: the table is the same.

The server is that of tests/fault_server.py; a model that wavers, so that tries are rejected and resampled, and that is
wrong now and then, so that a table which is the same byte for byte says something.
"""

from __future__ import annotations

import collections
import csv
import json
import random
import subprocess
import sys
import time

import pytest

pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.cli import main
from hopscope.formulations.equations import Equations
from hopscope.language.backends.base import Unreachable
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.evaluation import Cell, Evaluation, write_table
from hopscope.language.layouts.chat import Chat
from hopscope.language.protocols.resample import Resample
from hopscope.language.records import Records
from hopscope.language.server import Patience
from tests.fault_server import FAULTS, FaultServer, wavering

#: As the defaults, a hundred times faster.
QUICK = Patience(timeout=2.0, silence=20.0, pause=0.002, longest=0.02)


def table(folder):
    return (folder / "table.csv").read_bytes()


def rows(folder):
    with (folder / "table.csv").open() as file:
        return list(csv.DictReader(file))


def by_resampling(server, folder, count, patience=QUICK, in_flight=32):
    """The paper's protocol, as the command runs it; whatever is missing is left."""
    backend = Endpoint(server.url, "loopback", in_flight=in_flight, patience=patience)
    asked = (backend, Equations(n_hops=2), Chat(), Resample(), Evaluation(count=count))
    with Records.opened(folder) as records:
        try:
            result = Cell(*asked).run(records, lambda done, of: None)
        except Unreachable:
            result = Cell(*asked).told(records)
        finally:
            backend.close()
    write_table(folder, [result.row])
    return result.row


@pytest.mark.heavy
def test_500_of_500_questions_are_answered_through_all_faults_and_the_table_is_the_same(tmp_path):
    with FaultServer(answer=wavering, hold=0.6) as server:
        calm = by_resampling(server, tmp_path / "calm", 500)
        tries, server.rate = server.requests, 0.18
        wild = by_resampling(server, tmp_path / "wild", 500, QUICK.but(timeout=0.5), in_flight=150)
        injected, extra = server.injected, server.requests - 2 * tries
    assert wild["n"] + wild["run_outs"] == 500
    assert not wild["partial"]
    assert table(tmp_path / "wild") == table(tmp_path / "calm")
    assert wild["accuracy"] == calm["accuracy"]
    assert 0.5 < calm["accuracy"] < 0.95
    assert tries > 560
    assert min(injected[fault] for fault in FAULTS) > 200
    assert injected.total() <= extra <= 1.3 * injected.total()


class Mortal(FaultServer):
    """A server that dies in a given way after so many answers, and lives again when `after` is lifted."""

    death, after = "", 10**9

    def fault(self, body):
        if self.answered.total() >= self.after:
            self.mode = self.death
            return "reset"
        return super().fault(body)


@pytest.mark.parametrize("death", ["resets every connection", "401", "hang", "always null"])
def test_an_endpoint_that_dies_leaves_a_partial_table_and_the_rest_is_asked_later(tmp_path, death):
    with Mortal(answer=wavering, hold=1.0) as server:
        whole = by_resampling(server, tmp_path / "whole", 40, in_flight=4)
        tries, server.answered = server.answered.total(), collections.Counter()
        server.death, server.after, began = death, 24, time.monotonic()
        brief = Patience(timeout=0.5, silence=1.0, pause=0.01, longest=0.1)
        part = by_resampling(server, tmp_path / "part", 40, brief, in_flight=4)
        assert time.monotonic() - began < 30
        assert part["partial"]
        assert 0 < part["left"] < 40
        assert part["n"] + part["run_outs"] + part["left"] == 40
        assert rows(tmp_path / "part")[0]["partial"] == "True"
        server.after, server.mode = 10**9, ""
        again = by_resampling(server, tmp_path / "part", 40, in_flight=4)
        assert not again["partial"]
        assert again["accuracy"] == whole["accuracy"]
        assert table(tmp_path / "part") == table(tmp_path / "whole")
        assert tries <= server.answered.total() <= tries + 4  # what was in flight when it died


# The command


def command(server, folder, *more):
    model = ["--model", server.url, "--endpoint-model", "loopback", "--out", str(folder)]
    return ["evaluate", *model, "--formulation", "equations", "--hops", "2", "--layout", "chat", *more]


def test_the_command_says_what_is_wrong_with_the_key_and_goes_on_with_a_better_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOPSCOPE_API_KEY", "sk-very-secret")
    with Mortal() as server:
        server.death, server.after = "401", 20
        asked = command(server, tmp_path / "a", "--protocol", "resample", "--count", "40")
        assert main(asked) == 1
        said = capsys.readouterr()
        assert "answered 401" in said.err
        assert "set HOPSCOPE_API_KEY to a valid key" in said.err
        assert "missing" in said.out
        assert rows(tmp_path / "a")[0]["partial"] == "True"
        server.after, server.mode = 10**9, ""
        assert main(asked) == 0
        assert (rows(tmp_path / "a")[0]["n"], rows(tmp_path / "a")[0]["accuracy"]) == ("40", "1")
    kept = b"".join(file.read_bytes() for file in (tmp_path / "a").iterdir() if file.is_file())
    assert b"very-secret" not in kept
    assert "very-secret" not in said.err + said.out


def test_the_command_refuses_a_server_that_ignores_echo_by_name(tmp_path, capsys):
    with FaultServer(mode="ignores echo") as server:
        asked = command(server, tmp_path)
        assert main([*asked[:-1], "code", "--count", "4"]) == 2
        said = capsys.readouterr().err
    assert f"{server.url} cannot score log-likelihoods" in said
    assert "it ignored `echo`" in said


def test_a_refusal_before_any_answer_leaves_no_folder(tmp_path, capsys):
    """What was there stays: another's folder, and the answers of an earlier call."""
    with FaultServer(mode="ignores echo") as server:
        asked = command(server, tmp_path / "new" / "deep")
        assert main([*asked[:-1], "code", "--count", "4"]) == 2
        assert not list(tmp_path.iterdir())
        (tmp_path / "mine").mkdir()
        asked = command(server, tmp_path / "mine")
        assert main([*asked[:-1], "code", "--count", "4"]) == 2
        assert not list((tmp_path / "mine").iterdir())
        assert main([*asked, "--protocol", "greedy_strict", "--count", "4"]) == 0
        kept = (tmp_path / "mine" / "records.jsonl").read_bytes()
        assert main([*asked[:-1], "code", "--count", "4"]) == 2
    assert (tmp_path / "mine" / "records.jsonl").read_bytes() == kept


def test_the_command_stops_with_a_sentence_where_the_endpoint_is_not_there_at_all(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hopscope.language.opening.patience_of", lambda _: QUICK.but(silence=0.3))
    with FaultServer() as server:
        asked = command(server, tmp_path, "--protocol", "resample", "--count", "4")
    assert main(asked) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"hopscope: {server.url} has answered nothing for")
    assert said.count("\n") == 1 and said.endswith("; the same command asks again\n")


def killed_after(server, asked, requests, wait):
    """Start the command, and kill it when the server has seen so many requests, and a moment later."""
    seen = server.requests
    process = subprocess.Popen([sys.executable, "-m", "hopscope", *asked], stdout=subprocess.DEVNULL)
    while server.requests < seen + requests and process.poll() is None:
        time.sleep(0.002)
    time.sleep(wait)
    process.kill()
    process.wait()


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_9_at_any_moment_re_asks_at_most_what_was_in_flight(tmp_path, kills):
    draw, in_flight = random.Random(kills), 8
    protocol = ("--protocol", "resample", "--count", str(60 * kills))
    with FaultServer(answer=wavering, latency=0.02) as server:
        assert main(command(server, tmp_path / "whole", *protocol)) == 0
        tries, server.answered = server.answered.total(), collections.Counter()
        asked, between = command(server, tmp_path / "killed", *protocol), tries // (2 * kills)
        for _ in range(kills):
            killed_after(server, asked, draw.randrange(1, between), draw.random() * 0.05)
        time.sleep(0.2)  # the last requests of the dead
        before = server.answered.total()
        assert before < tries  # it never came to its end
        assert main(asked) == 0
        again = server.answered.total() - tries
    assert again <= kills * in_flight
    assert table(tmp_path / "killed") == table(tmp_path / "whole")
    assert rows(tmp_path / "killed")[0]["partial"] == "False"
    keys = [json.loads(line)["key"] for line in (tmp_path / "killed" / "records.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == tries
