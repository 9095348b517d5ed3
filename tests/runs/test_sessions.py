"""What each start of a run records that its bits depend on, and what is said when two starts differ."""

from __future__ import annotations

import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from hopscope import Run, load, train
from hopscope.cli import main
from hopscope.core import environment
from hopscope.core.settings import BadInput
from hopscope.training.loop import Interrupted
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import config, trained

FIRST = ("code", "torch", "threads", "device", "compiled")  # all that 0.1.0 recorded


@pytest.fixture
def half(tmp_path) -> Path:
    """A run that was stopped half-way."""
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        train(config(), tmp_path / "run", threads=1, compile="off", should_stop=lambda: next(calls) == 5)
    return tmp_path / "run"


def edit(folder: Path, *changes: dict | tuple[str, ...]) -> None:
    """Rewrite the sessions: one for each change, with entries altered, or with these entries alone."""
    recorded = Run(folder).sessions[0]
    lines = []
    for index, change in enumerate(changes):
        about = recorded["environment"]
        about = about | change if isinstance(change, dict) else {name: about[name] for name in change}
        lines.append(json.dumps({"from_step": index and 4, "environment": about}) + "\n")
    (folder / "sessions.jsonl").write_text("".join(lines))


def test_what_is_recorded_is_what_there_is(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    found = environment.describe(torch.device("cpu"), False, {"scan": "3"})
    assert found["python"] == platform.python_version()
    assert found["numpy"] == version("numpy")
    assert found["instructions"].split()[0] == torch.backends.cpu.get_cpu_capability()
    assert "MKL_CBWR=COMPATIBLE" in found["switches"].split()
    assert found["kernels"] == "scan=3"
    said = torch.__config__.show()
    libraries = dict(word.split("-", 1) for word in found["math"].split())
    assert (
        f"oneAPI Math Kernel Library Version {libraries['MKL']}" in said and f"MKL-DNN v{libraries['oneDNN']}" in said
    )
    assert json.loads(json.dumps(found)) == found


@pytest.mark.skipif(platform.system() != "Linux", reason="reads /proc")
def test_instructions_are_those_of_the_processor():
    text = Path("/proc/cpuinfo").read_text()
    flags = environment.describe(torch.device("cpu"), False)["instructions"].split()[1:]
    assert all(f" {flag}" in text for flag in flags)
    if platform.machine() == "x86_64":
        assert ("avx2" in flags) == (" avx2 " in text) and not {"sse2", "hypervisor"} & set(flags)


def test_a_compiled_run_names_its_compiler():
    assert environment.describe(torch.device("cpu"), False)["compiler"] == ""
    if environment.cpp_compiler():
        assert any(c.isdigit() for c in environment.describe(torch.device("cpu"), True)["compiler"])


@pytest.mark.parametrize(
    ("before", "now", "differ"),
    [
        ({"torch": "2", "math": "MKL-1"}, {"torch": "2", "math": "MKL-1"}, {}),
        ({"torch": "2"}, {"torch": "3"}, {"torch": ("2", "3")}),
        ({"torch": "2"}, {"torch": "2", "math": "MKL-1"}, {}),  # recorded on one side only: unknown
        ({"torch": "2", "math": "MKL-1"}, {"torch": "2"}, {}),
        ({"torch": "2"}, {"torch": "2", "stacked": 3}, {"stacked": (None, 3)}),  # that it is absent says something
    ],
)
def test_only_what_is_known_of_both_can_differ(before, now, differ):
    assert environment.differences(before, now) == differ


def test_a_run_on_another_processor_says_what_differs(half, capsys):
    edit(half, {"instructions": "AVX2 avx2 fma", "numpy": "2.0.0"})
    with pytest.warns(UserWarning, match="begun with other numpy, instructions: it goes on, but is no longer") as told:
        run = trained(half)
    assert f"numpy: 2.0.0 before, {version('numpy')} now" in str(told[0].message)
    assert not run.bit_exact and set(run.changed) == {"numpy", "instructions"}
    assert main(["show", str(half)]) == 0
    assert "not bit-exact: it was resumed under other instructions, numpy" in capsys.readouterr().out
    assert main(["show", str(half), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bit_exact"] is False


def test_a_run_of_before_these_were_recorded_goes_on_silently(half):
    edit(half, FIRST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = trained(half)
    assert run.done and run.bit_exact
    assert set(run.sessions[0]["environment"]) == set(FIRST) < set(run.sessions[1]["environment"])


def test_what_one_start_did_not_record_does_not_hide_that_others_differ(half):
    whole = Run(half).sessions[0]["environment"]
    edit(half, {}, FIRST, {"instructions": "AVX2"})
    assert Run(half).changed == {"instructions": (whole["instructions"], "AVX2")}
    edit(half, {"instructions": "AVX2"}, FIRST)
    assert Run(half).bit_exact
    with pytest.warns(UserWarning, match="other instructions"):
        trained(half)


def test_a_start_from_nothing_forgets_what_was_before(half):
    edit(half, {"threads": 7}, {})
    assert not Run(half).bit_exact
    text = (half / "sessions.jsonl").read_text()
    (half / "sessions.jsonl").write_text(text.replace('"from_step": 4', '"from_step": 0'))
    assert Run(half).bit_exact


def test_the_shipped_demo_loads_with_what_it_recorded():
    assert set(FIRST) <= set(load("packaged").sessions[0]["environment"])
    assert load("packaged").bit_exact and not load("packaged").changed


def test_a_run_of_before_a_kernel_resumes_and_says_once_that_it_is_not_bit_exact(tmp_path):
    low, folder = config(dtype="bfloat16"), tmp_path / "run"

    def go_on() -> None:
        calls = iter(range(100))
        with pytest.raises(Interrupted):
            train(low, folder, threads=1, should_stop=lambda: next(calls) == 1)

    go_on()
    edit(folder, {"kernels": ""})  # as versions without kernels recorded it
    with pytest.warns(UserWarning, match="other kernels: it goes on, but is no longer bit-exact .*gelu_bfloat16=1"):
        go_on()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = train(low, folder, threads=1)
    assert run.done and not run.bit_exact and set(run.changed) == {"kernels"}


def test_what_is_no_path_is_no_run():
    with pytest.raises(BadInput, match="given as the path of its folder; got 5"):
        load(5)
