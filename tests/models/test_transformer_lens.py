"""TransformerLens computes what we compute, from the same weights and under the same names of activations.

It runs in the environment of the peers (`make peers`), with another Python: bench/parity.py.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = [
    f"{inputs}-{heads}-heads-{kind}"
    for inputs in ("vectors", "tokens")
    for heads in (1, 4)
    for kind in ("whole", "attention-only", "not-causal", "no-layernorm", "wide-heads")
]

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def differences():
    python = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"there is no {python}; `make peers` builds the environment that TransformerLens lives in")
    command = [python, "-m", "bench.parity"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-11)])
def test_outputs_and_every_activation_are_those_of_transformer_lens(differences, dtype, bound, case):
    found = differences[dtype][case]
    per_layer = 5 + 3 + (0 if "attention-only" in case else 2)  # q k v pattern z; resid_pre, attn_out, resid_post; …
    ends = 2 * case.startswith("tokens") + ("no-layernorm" not in case)  # hook_embed, hook_pos_embed; hook_normalized
    assert len(found) == 1 + 3 * per_layer + ends
    assert max(found.values()) <= bound, {name: value for name, value in found.items() if value > bound}


def test_every_case_is_compared(differences):
    assert all(sorted(by_case) == sorted(CASES) for by_case in differences.values())
