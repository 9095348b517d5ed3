"""One rule of convergence for all rivals: curves by hand, and a run that it ends, killed at every step."""

from __future__ import annotations

import pytest

from hopscope import train
from hopscope.core.settings import BadInput
from hopscope.training.convergence import is_flat
from hopscope.training.loop import Interrupted
from tests.small_runs import config, fingerprint, trained


def first_flat(losses: list[float], steps: int = 100, least: float = 0.01) -> int | None:
    """The step at which the rule would end a training of 100 steps with a row every ten."""
    seen = {}
    for step, loss in zip(range(0, steps + 1, 10), losses, strict=False):
        seen[step] = loss
        if is_flat(seen, steps, least):
            return step
    return None


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param([4, 4, 4], 20, id="never falls: over after the first fifth, and not before"),
        pytest.param([4, 3, 2, 2, 2], 40, id="a fifth after it last fell"),
        pytest.param([4, 3, 2, 2.5, 3], 40, id="rising again is not falling"),
        pytest.param([4, 3, 2, 2.5, 1.98, 1.98, 1.98], 60, id="a new best one counts from where it stands"),
        pytest.param([4 - 0.006 * k for k in range(11)], None, id="slow, but a hundredth in every fifth"),
        pytest.param([4 - 0.004 * k for k in range(11)], 20, id="slower than that"),
        pytest.param([4.0, 3.9, 3.8, 3.7, 3.6, 3.5, 3.4, 3.3, 3.2, 3.1, 3.0], None, id="censored: it still falls"),
    ],
)
def test_curves_by_hand(losses, expected):
    assert first_flat(losses) == expected


def test_in_fewer_steps_than_fifths_a_step_is_the_least(tmp_path):
    """Nothing is flat before its first update."""
    assert not is_flat({0: 1.0}, 4, 0.01)
    assert is_flat({0: 1.0, 1: 1.0}, 4, 0.01) and not is_flat({0: 1.0, 1: 0.5}, 4, 0.01)
    assert trained(tmp_path / "run", steps=4, stop_flat=0.0).step > 0


#: Stops at the first row a fifth of its steps after its loss fell by so much: before its end, and after its beginning.
ENDS = {"steps": 40, "lr": 0.01, "stop_flat": 0.02, "log_every": 2, "checkpoints": "8"}


def test_a_run_that_it_ends_is_the_same_wherever_it_was_stopped(tmp_path):
    undisturbed = trained(tmp_path / "undisturbed", **ENDS)
    losses = {row["step"]: row["val_loss"] for row in undisturbed.rows}
    flat = [step for step in losses if is_flat({s: loss for s, loss in losses.items() if s <= step}, 40, 0.02)]
    assert flat == [undisturbed.report["step"]] and 8 < flat[0] < 40
    for killed in range(1, flat[0]):
        steps = iter(range(1, 100))
        with pytest.raises(Interrupted):
            train(
                config(**ENDS),
                tmp_path / f"{killed}",
                threads=1,
                compile="off",
                should_stop=lambda steps=steps, killed=killed: next(steps) == killed,
            )
        assert fingerprint(trained(tmp_path / f"{killed}", **ENDS)) == fingerprint(undisturbed)


def test_it_is_in_no_identity_until_it_is_used():
    assert config(stop_flat=None).identity == config().identity != config(stop_flat=0.01).identity
    with pytest.raises(BadInput, match="stop-flat must be at least 0"):
        config(stop_flat=-1.0)
