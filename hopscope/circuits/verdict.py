"""The verdict on a circuit, on sequences that the search has not seen, and the reason in words.

The verdict `circuit` has five conditions: the model has solved its task, by loss and by accuracy; its loss is lower
than with every head null; there is at least one path; every test is passed; and the model uses the paths
(`hopscope.circuits.use`). The tests are: every pattern set by hand (paper, appendix E); live with all else null (ours),
once with the paths alone and once with their whole rows; and live with all other heads mean-ablated, where a model lets
the outputs of its heads be replaced (`hopscope.circuits.averages`). The worse end of a 95 % interval must be within the
threshold. The verdict `partial` means that a circuit passed by hand or live; or passed everything, but is dormant or
was not shown to be minimal. Thresholds are the task's (docs/contracts.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from hopscope.circuits.losses import Account, Loss, Share, pooled
from hopscope.core.wording import listed
from hopscope.tasks.base import Task

Verdict = Literal["circuit", "partial", "none"]
C = TypeVar("C")
STRICT = 0.01  # share of the gap between model and null that a circuit may lose under `strict` (ours)
TESTS = {
    "circuit": "with every pattern set by hand",
    "live": "with its attention as computed and all else null",
    "rows": "with its rows as computed and all else null",
    "average": "with all other heads mean-ablated",
}


@dataclass(frozen=True)
class Demands:
    """The thresholds of a task for a model and its circuits.

    Attributes:
        model_loss: the model's loss must be below it.
        model_accuracy: the model must be at least so accurate, 0–1.
        loss: a circuit's loss must be below it.
        accuracy: a circuit must be at least so accurate, 0–1.
    """

    model_loss: float
    model_accuracy: float
    loss: float
    accuracy: float

    @classmethod
    def of(cls, task: Task, model: Account, null: Account, strict: bool = False) -> Demands:
        """The thresholds of a task, given the full model's results and those with every head null.

        Under `strict` a circuit must also keep all but 1 % (`STRICT`) of the gap between these two.
        """
        losses = [float(account.losses.mean()) for account in (model, null)]
        shares = [Share.of(account.hits).mean for account in (model, null)]
        loss, accuracy = task.circuit_threshold(*losses), task.circuit_accuracy(*shares)
        if strict:
            loss = min(loss, losses[0] + STRICT * (losses[1] - losses[0]))
            accuracy = max(accuracy, shares[0] + STRICT * (shares[1] - shares[0])) if accuracy > 0 else 0.0
        return cls(task.model_threshold, task.model_accuracy, loss, accuracy)


@dataclass(frozen=True)
class Trial:
    """Results of the model, of its circuit in every test, and of the null, on fresh sequences.

    Attributes:
        losses: by name: `model`; `circuit`, every pattern by hand; `live`; `rows`, live with whole rows; `average`,
            live with all other heads mean-ablated, where the model allows it; `null`.
        accuracies: shares of right answers, by the same names.
        hop_losses: partial losses, by the same names.
        gap: loss with every head null minus the model's loss, paired by sequence.
        demands: the task's thresholds.
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

    @property
    def judged(self) -> dict[str, Any]:
        """The fields of `Judged` other than the verdict and its reason."""
        measured = {"losses": self.losses, "accuracies": self.accuracies, "hop_losses": self.hop_losses}
        return {**measured, "threshold": self.demands.loss}

    def asked(self, name: str) -> tuple[float, float]:
        """The loss that the model, or its circuit in a test, must stay below, and the accuracy that it must reach."""
        demands = self.demands
        return (demands.model_loss, demands.model_accuracy) if name == "model" else (demands.loss, demands.accuracy)

    def passes(self, name: str) -> bool:
        """Whether the model, or its circuit in a test (a key of `TESTS`), keeps its bounds."""
        loss, accuracy = self.asked(name)
        return self.losses[name].high < loss and self.accuracies[name].low >= accuracy

    @property
    def tests(self) -> list[str]:
        """The tests that were made."""
        return [test for test in TESTS if test in self.losses]

    def fits(self) -> bool:
        """Whether the circuit passes every test that was made."""
        return all(map(self.passes, self.tests))

    def open(self) -> list[str]:
        """The names to run on more sequences: those too close to their threshold, and with them model and null."""
        near = [
            name
            for name, (loss, share) in ((name, self.asked(name)) for name in ("model", *self.tests))
            if self.losses[name].low < loss <= self.losses[name].high
            or self.accuracies[name].low < share <= self.accuracies[name].high
        ]
        return [*dict.fromkeys(["model", "null", *near])] if near or self.gap.low <= 0 < self.gap.high else []


def on_trial(
    task: Task, changes: Mapping[str, C], rounds: Iterable[Callable[[list[C]], list[Account]]], strict: bool = False
) -> Trial:
    """Run every test of a circuit, and repeat those that are at their threshold on further sequences.

    The thresholds depend on the model's loss and on the loss with every head null, on the same sequences.

    Args:
        task: the task of the model.
        changes: by name: the model, the circuit in every test, and the null.
        rounds: functions that give the results of changes, each on further sequences.
        strict: whether a circuit must keep all but 1 % of the gap between model and null.
    """
    accounts: dict[str, Account] = {}
    names = list(changes)
    for accounts_of in rounds:
        for name, new in zip(names, accounts_of([changes[name] for name in names]), strict=True):
            accounts[name] = pooled(accounts[name], new) if name in accounts else new
        trial = Trial.of(task, accounts, strict)
        names = trial.open()
        if not names:
            break
    return trial


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
    """The verdict and its reason, which says what to try if the verdict is not `circuit`.

    Args:
        trial: the losses and accuracies of the model, the circuit and the null.
        n_paths: the number of the circuit's paths.
        hint: a probable cause, if a test failed or no set of paths was found.
        advice: what to try if the model has not solved its task.
        minimal: whether the search showed that nothing can be left out.
        asleep: paths of the circuit that the full model does not use.
        missed: rows outside the circuit without whose own output the test with mean ablation fails.
    """
    if not trial.passes("model"):
        return "none", f"{unsolved(trial)}; {advice}"
    if trial.gap.low <= 0:
        return "none", (
            f"with every head null the loss is {trial.losses['null'].mean:.3g}, and the full model's is not "
            "significantly lower, so attention has no loss to explain; try another --null, or look into the MLPs"
        )
    if not n_paths:
        live = ", though whole rows do live" * trial.passes("live")
        return "none", f"no set of paths passes the tests{live}; {hint or ADVICE['paths']}"
    failed = [test for test in trial.tests if not trial.passes(test)]
    loss = {test: f"{trial.losses[test].mean:.3g}" for test in trial.tests}
    if asleep and failed in ([], ["average"]):
        return "partial", (
            f"it passes by hand (loss {loss['circuit']}) and live (loss {loss['live']}), but it is dormant: the full "
            f"model does not use {listed(map(str, asleep))}; try roles for more positions, or another --null"
        )
    if not failed and not minimal:
        return "partial", (
            f"it passes every test (loss {loss['circuit']} by hand, {loss['live']} live), but its margin on the "
            "search's sequences is too small to tell whether something can be left out; try more sequences "
            "(--discovery, --selection)"
        )
    if not failed:
        by_hand, live = (f"{loss[test]} {TESTS[test]}" for test in ("circuit", "live"))
        return "circuit", f"the loss is {by_hand}, and {live}; both are below {trial.demands.loss:.3g}"
    failures = "; ".join(f"{TESTS[test]}, {short(trial, test)}" for test in failed)
    failures += f"; this loss is lower if {listed(missed, last='or')} is not ablated" if missed else ""
    fails_live = any(test in failed for test in ("live", "rows", "average"))
    if fails_live and "circuit" in failed:
        return "none", f"{failures}; {hint or ADVICE['circuit']}"
    passed = f"it passes by hand (loss {loss['circuit']})" if fails_live else f"it passes live (loss {loss['live']})"
    return "partial", f"{passed}, but {failures}; {hint or ADVICE[failed[0]]}"


def unsolved(trial: Trial) -> str:
    """Say that the model has not solved its task, and which threshold it misses."""
    return f"the model itself has not solved its task: {short(trial, 'model')}"


def short(trial: Trial, name: str) -> str:
    """Say which threshold the model or a circuit misses, with the 95 % interval; the loss comes before the accuracy."""
    measured, right, (loss, accuracy) = trial.losses[name], trial.accuracies[name], trial.asked(name)
    if measured.high >= loss:
        interval = f"(95 %: {measured.low:.3g} to {measured.high:.3g})"
        return f"the loss is {measured.mean:.3g} {interval}, and the upper end must be below {loss:.3g}"
    interval = f"(95 %: {right.low:.1%} to {right.high:.1%})"
    return f"{right.mean:.1%} {interval} of the answers are right, and the lower end must reach {accuracy:.1%}"


#: What to try after a failed test, or if no paths were found.
ADVICE = {
    "rows": "attention of these rows outside the paths interferes: try another --null, or roles for more positions",
    "live": "something outside these paths determines where they attend: try another --null, or --alternatives",
    "average": "heads outside the circuit do part of the work: try another --null, or more --alternatives",
    "circuit": "ideal patterns do not give every answer: try another --null, or more sequences (--discovery)",
    "paths": "try another --null, or more sequences (--discovery)",
}
