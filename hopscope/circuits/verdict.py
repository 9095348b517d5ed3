"""The verdict on a circuit: what it is asked for, on sequences that the search has not seen, and the words for it.

`circuit` needs five things: a model that has solved its task, by loss and by accuracy; a gap between the model and the
same with every head idle; at least one path; every test; and paths that the model uses (`hopscope.circuits.use`). The
tests: all patterns by hand (paper, appendix E); live, all but the circuit being null (ours), as its paths alone and as
their whole rows; and live with all other heads at their average, where a model lets heads' outputs be replaced
(`hopscope.circuits.averages`). Losses count by the worse end of their 95 % intervals. `partial` passed by hand or live,
or both while the search could not tell whether something can be left out, or is dormant. Thresholds are the task's
(docs/contracts.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from hopscope.circuits.losses import Account, Loss, Share, pooled
from hopscope.core.wording import listed
from hopscope.tasks.base import Task

Verdict = Literal["circuit", "partial", "none"]
C = TypeVar("C")
STRICT = 0.01  # of what is between the model and the same idle, to be lost where somebody asks for it (ours)
MORE = 7  # times as many sequences are drawn beside the first, where an interval holds its threshold
TESTS = {
    "circuit": "with all patterns by hand",
    "live": "as computed, all else null,",
    "rows": "with their rows whole, all else null,",
    "average": "as computed, all other heads at their average,",
}


@dataclass(frozen=True)
class Demands:
    """What a task asks of a model and its circuits.

    Attributes:
        model_loss: the model must be below.
        model_accuracy: and at least so accurate.
        loss: a circuit must be below.
        accuracy: and at least so accurate.
    """

    model_loss: float
    model_accuracy: float
    loss: float
    accuracy: float

    @classmethod
    def of(cls, task: Task, model: Account, null: Account, strict: bool = False) -> Demands:
        """Of a task, by its model as it is, and idle; strictly, all but 1 % of what is between these must be kept."""
        losses = [float(account.losses.mean()) for account in (model, null)]
        shares = [Share.of(account.hits).mean for account in (model, null)]
        loss, accuracy = task.circuit_threshold(*losses), task.circuit_accuracy(*shares)
        if strict:
            loss = min(loss, losses[0] + STRICT * (losses[1] - losses[0]))
            accuracy = max(accuracy, shares[0] + STRICT * (shares[1] - shares[0])) if accuracy > 0 else 0.0
        return cls(task.model_threshold, task.model_accuracy, loss, accuracy)


@dataclass(frozen=True)
class Trial:
    """The model, its circuit by hand and live, and the null, on fresh sequences; what is near its threshold, on more.

    Attributes:
        losses: by name: model, circuit (by hand), live, rows (live, rows whole), average (live, all other heads at
            their average; where the model allows it), null.
        accuracies: of the same.
        hop_losses: of the same.
        gap: by how much null is worse than the model, sequence by sequence.
        demands: of the task.
    """

    losses: dict[str, Loss]
    accuracies: dict[str, Share]
    hop_losses: dict[str, dict[str, float]]
    gap: Loss
    demands: Demands

    @classmethod
    def of(cls, task: Task, accounts: Mapping[str, Account], strict: bool = False) -> Trial:
        return cls(
            {name: Loss.of(account.losses) for name, account in accounts.items()},
            {name: Share.of(account.hits) for name, account in accounts.items()},
            {name: account.hop_losses for name, account in accounts.items()},
            Loss.of(accounts["null"].losses - accounts["model"].losses),
            Demands.of(task, accounts["model"], accounts["null"], strict),
        )

    def solved(self) -> bool:
        """Whether the model has solved its task."""
        return (
            self.losses["model"].high < self.demands.model_loss
            and self.accuracies["model"].low >= self.demands.model_accuracy
        )

    def passes(self, test: str) -> bool:
        """Whether the circuit passes one of them."""
        return self.losses[test].high < self.demands.loss and self.accuracies[test].low >= self.demands.accuracy

    @property
    def tests(self) -> list[str]:
        """The tests that the circuit was put to."""
        return [test for test in TESTS if test in self.losses]

    def fits(self) -> bool:
        """Whether the circuit passes all of them."""
        return all(map(self.passes, self.tests))

    def open(self) -> list[str]:
        """What more sequences may tell otherwise: what is at its threshold, and the two that thresholds go by."""
        asked = {"model": (self.demands.model_loss, self.demands.model_accuracy)}
        asked |= dict.fromkeys(self.tests, (self.demands.loss, self.demands.accuracy))
        near = [
            name
            for name, (loss, share) in asked.items()
            if self.losses[name].low < loss <= self.losses[name].high
            or self.accuracies[name].low < share <= self.accuracies[name].high
        ]
        return [*dict.fromkeys(["model", "null", *near])] if near or self.gap.low <= 0 < self.gap.high else []


def on_trial(
    task: Task, changes: Mapping[str, C], rounds: Iterable[Callable[[list[C]], list[Account]]], strict: bool = False
) -> Trial:
    """Put a circuit on trial, on further sequences for what those seen leave open.

    What is asked of it depends on the model's loss and on that with every head idle, of the same sequences.

    Args:
        task: which the model has learnt.
        changes: the model, the circuit in every test and the null.
        rounds: accounts of changes, each of other sequences.
        strict: whether all but 1 % must be kept.
    """
    accounts: dict[str, Account] = {}
    names = list(changes)
    for accounts_of in rounds:
        for name, new in zip(names, accounts_of([changes[name] for name in names]), strict=True):
            accounts[name] = pooled(accounts[name], new) if name in accounts else new
        found = Trial.of(task, accounts, strict)
        names = found.open()
        if not names:
            break
    return found


# In words --------------------------------------------------------------------------------------------------------


def judge(
    trial: Trial,
    n_paths: int,
    hint: str = "",
    advice: str = Task.unsolved_advice,
    *,
    minimal: bool = True,
    asleep: Sequence[object] = (),
    missed: Sequence[str] = (),
) -> tuple[Verdict, str]:
    """The verdict, and why, in one sentence that says what to try where it is not `circuit`.

    Args:
        trial: of the circuit.
        n_paths: of the circuit.
        hint: what may be the matter where a test fails, or no set of paths was found.
        advice: what to try where the model has not solved its task.
        minimal: whether the search saw that nothing can be left out of it.
        asleep: its paths that the model as it is does not use.
        missed: rows beside it that are missed at their average.
    """
    if not trial.solved():
        return "none", f"{unsolved(trial)}; {advice}"
    if trial.gap.low <= 0:
        return "none", (
            f"with every head idle the loss is {trial.losses['null'].mean:.3g}, and the model's is no better by more "
            "than chance, so there is nothing for attention to explain; try another --null, or look into the MLPs"
        )
    if not n_paths:
        return "none", f"no set of paths was found; {hint or 'try another --null, or more sequences (--discovery)'}"
    failed = [test for test in trial.tests if not trial.passes(test)]
    loss = {test: f"{trial.losses[test].mean:.3g}" for test in trial.tests}
    if asleep and failed in ([], ["average"]):
        return "partial", (
            f"by hand and live it passes, at {loss['circuit']} and {loss['live']}, but is dormant: the model as it is "
            f"does not use {listed(map(str, asleep))}, and does its work by other means; try roles for more positions, "
            "or another --null"
        )
    if not failed and not minimal:
        return "partial", (
            f"it passes all tests, at {loss['circuit']} by hand and {loss['live']} as computed, but on the search's "
            "own sequences not by enough to tell whether something can be left out; try more of them (--discovery, "
            "--selection)"
        )
    if not failed:
        below = f"with all patterns by hand the loss is {loss['circuit']}, below {trial.demands.loss:.3g}"
        return "circuit", f"{below}, and {loss['live']} as computed, all else null"
    said, also = ", and ".join(f"{TESTS[test]} {short(trial, test)}" for test in failed), f"; {hint}" if hint else ""
    said += f", for want of {listed(missed)}" if missed else ""
    live = [test for test in ("live", "rows", "average") if test in failed]
    if live and "circuit" in failed:
        return "none", f"{said}; {ADVICE['circuit']}{also}"
    passed = "by hand it passes" if live else "live it passes"
    value = loss["circuit" if live else "live"]
    return "partial", f"{passed} at {value}, but {said}; {ADVICE[failed[0]]}{also}"


def unsolved(trial: Trial) -> str:
    """That the model has not solved its task, and by which measure."""
    lacks = shortfall(trial, "model", trial.demands.model_loss, trial.demands.model_accuracy)
    return f"the model itself has not solved its task: {lacks}"


def short(trial: Trial, test: str) -> str:
    """What a circuit falls short of in a failed test."""
    return shortfall(trial, test, trial.demands.loss, trial.demands.accuracy)


def shortfall(trial: Trial, name: str, loss: float, accuracy: float) -> str:
    """By which measure something falls short of a loss to be below and an accuracy to be reached."""
    found, right = trial.losses[name], trial.accuracies[name]
    if found.high >= loss:
        ends = f"({found.low:.3g} to {found.high:.3g})"
        return f"the loss is {found.mean:.3g} {ends}, and the upper end must be below {loss:.3g}"
    ends = f"({right.low:.1%} to {right.high:.1%})"
    return f"{right.mean:.1%} {ends} of the answers are right, and the lower end must reach {accuracy:.1%}"


#: What to try after a failed test.
ADVICE = {
    "rows": "the rest of these rows interferes with the paths: try another --null, or roles for more positions",
    "live": "something other than these paths tells them where to attend: try another --null, or --alternatives",
    "average": "others do a part of the work by attending as a null does: try another --null, or more --alternatives",
    "circuit": "ideal patterns do not carry all of the answers: try another --null, or more sequences (--discovery)",
}
