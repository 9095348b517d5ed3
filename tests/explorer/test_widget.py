"""The widget: what it answers to the page's messages, and what it says where anywidget is not installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time

import pytest

import hopscope
from hopscope import BadInput
from hopscope.explorer.bundle import Block

anywidget = pytest.mark.skipif(
    importlib.util.find_spec("anywidget") is None, reason="anywidget is not installed; run make setup"
)


@pytest.fixture
def view(small):
    """A widget whose answers are collected, its work done."""
    made = hopscope.explore(small)
    made.heard_back = []
    made.send = lambda content, buffers=None: made.heard_back.append((content, buffers))
    for _ in range(600):
        if made.builder.bundle.manifest["progress"]["complete"]:
            break
        time.sleep(0.1)
    yield made
    made.close()


def asked(view, **content):
    view.receive({"id": len(view.heard_back), **content})
    answer, buffers = view.heard_back[-1]
    assert answer["id"] == len(view.heard_back) - 1 and answer["kind"] == content.get("kind")
    return answer, buffers


@anywidget
def test_it_gives_what_the_page_asks_for(view, small):
    manifest = json.loads(asked(view, kind="manifest")[0]["text"])
    (run,) = manifest["runs"]
    assert run["identity"] == small.config.identity and manifest["progress"]["complete"]
    name = run["checkpoints"][-1]["weights"]
    _, (data,) = asked(view, kind="block", name=name)
    assert Block.from_entry(data, manifest["blocks"][name]).entry() == manifest["blocks"][name]
    answer, _ = asked(view, kind="compute", query=f"run={run['identity']}&step=12&n=8")
    reference = run["checkpoints"][-1]["reference"]["8"]["loss"]
    assert answer["answer"]["loss"] == pytest.approx(reference, rel=1e-5)


@anywidget
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"kind": "block", "name": "../secret"}, "there is no such block"),
        ({"kind": "compute", "query": "run=x"}, "there is no run 'x' here"),
        ({"kind": "files"}, "the page asks for 'files', which this version of hopscope does not know"),
        ({}, "the page asks for None"),
    ],
)
def test_what_it_does_not_have_is_told_in_one_sentence(view, content, said):
    answer, buffers = asked(view, **content)
    assert answer["error"].startswith(said) and not buffers


@anywidget
def test_its_state_is_read_and_set(view):
    assert view.state == "" and view.get_state(["state", "height"]) == {"state": "", "height": 720}
    view.state = "view=circuit&step=8"
    assert view.get_state("state") == {"state": "view=circuit&step=8"}
    assert "render" in view._esm and len(view._css) > 0


@anywidget
def test_a_fault_is_told_in_the_page(view, monkeypatch, capsys):
    def fails() -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(view.builder, "follow", fails)
    view.work()
    manifest = json.loads(asked(view, kind="manifest")[0]["text"])
    assert manifest["progress"]["told"] == "stopped by a fault of hopscope's: no such luck"
    assert "RuntimeError" in capsys.readouterr().err


@anywidget
def test_a_run_that_is_none_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="is not a run folder"):
        hopscope.explore(tmp_path)


def test_without_anywidget_it_says_what_to_install(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "anywidget" else real(name))
    with pytest.raises(BadInput, match=r"run pip install 'hopscope\[explorer\]'"):
        hopscope.explore("packaged")


def test_hopscope_imports_no_widgets():
    code = "import sys, hopscope; hopscope.explore; print([m for m in ('anywidget', 'traitlets') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
