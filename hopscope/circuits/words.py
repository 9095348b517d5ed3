"""A paragraph of English about a circuit: what each layer does, its losses, its size, and other circuits.

Roles (docs/contracts.md) are spelled out: `value[2]` is the second token of fact 2. The paper describes its circuits
in the same way, written by hand (Musat, ICLR 2025, section 8.2).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from hopscope.circuits.algorithm import algorithm_words, induction_heads
from hopscope.circuits.circuit import Circuit, Found
from hopscope.circuits.speech import arrow, count, digits, head_of, path_name, spans, times
from hopscope.core.wording import listed
from hopscope.problem.paths import Path
from hopscope.problem.relations import PLACES, WORDS, Relations
from hopscope.tasks.base import Batch, Task, TokenTask, VectorTask

ROLE = re.compile(r"(key|value)\[(\d+)(?:,(\d+))?\]")
ORDINALS = ("", "first", "second", "third", "fourth")
#: Rules (hypotheses) that say more than the two roles of a path, in words.
RULES = {
    "previous position": "the previous position",
    "same symbol": "which holds the same symbol",
    "after the same symbol": "which follows the same symbol",
}

PARTS = ("query", "key", "value")
PLURALS = {"query": ("query", "queries"), "key": ("key", "keys"), "value": ("value", "values")}


def paragraph(circuit: Circuit, task: Task, least: int | None = None) -> str:
    """Describe a circuit: what each layer does, its losses, the cost of leaving paths out, and its size.

    Args:
        circuit: accepted or not. For one that is not, the paragraph starts with the reason.
        task: the task of the circuit. Its roles tell whether a layer joins the tokens of every fact.
        least: the number of layers that theory gives as the minimum; None leaves this sentence out.

    Returns:
        Sentences on one line. Equal circuits give equal text.
    """
    searched, heads = task.sample(1).searched, induction_heads(circuit)
    does = [layer_words(layer, paths, searched.names, heads) for layer, paths in by_layer(circuit.paths)]
    parts = (repeated, feeding, unnamed, loss_words, untouched, removal_costs, takeover_words)
    about = [sentence for part in parts for sentence in part(circuit)]
    words = " ".join([*refusal(circuit), *does, *about, *compared(circuit, task, least)])
    described = PLACES | WORDS if isinstance(searched, Relations) else {}  # words for `each`, `−1` and others
    return NAMED.sub(lambda match: described.get(match[1], match[0]), words)


NAMED = re.compile(r"the positions of role ([^\s,;.)]+)")


def remarks(circuit: Circuit, task: Task, least: int | None = None) -> list[str]:
    """The sentences of `paragraph` that a table of paths and losses does not hold; same arguments."""
    about = [*feeding(circuit), *unnamed(circuit), *takeover_words(circuit)]
    return [*refusal(circuit)[1:], *about, *compared(circuit, task, least)]


def compared(circuit: Circuit, task: Task, least: int | None) -> list[str]:
    """For an accepted circuit, its size, its algorithm and the other circuits."""
    if not circuit.accepted:
        return []
    return [size(circuit, task, least), *algorithm_words(circuit, task), *others(circuit)]


def refusal(circuit: Circuit) -> list[str]:
    """Why a circuit is not accepted, or only in part, and what the search found; empty for an accepted one."""
    if circuit.accepted:
        return []
    if circuit.verdict == "partial":
        return [f"The circuit is accepted only in part: {circuit.reason}."]
    result = "The search found no set of paths that does what the model does."
    if circuit.paths:
        do = "does" if len(circuit.paths) == 1 else "do"
        result = f"The search found {count(len(circuit.paths), 'path')}, which {do} not suffice."
    if circuit.spare:
        result += f" It also tried {count(circuit.spare, 'further path')}, without which the loss is no higher."
    return [f"No circuit is accepted: {circuit.reason}.", result]


# What it does ----------------------------------------------------------------------------------------------------


def by_layer(paths: Iterable[Found]) -> list[tuple[int, list[Found]]]:
    """The paths grouped by layer, in ascending order."""
    ordered = sorted(paths, key=lambda found: found.path)
    return [(layer, list(group)) for layer, group in itertools.groupby(ordered, lambda found: found.path.layer)]


def layer_words(
    layer: int, paths: Sequence[Found], roles: Sequence[str], induction: frozenset[Path] = frozenset()
) -> str:
    """A sentence for each path of a layer; a single one for the joins where the layer joins every fact."""
    joining = [found for found in paths if joins_fact(found.path)]
    facts = {step for role in roles if (step := step_of(role))}
    if len(joining) < 2 or {step_of(found.path.query) for found in joining} != facts or any(map(premise, roles)):
        first, *more = [attends(found, roles, paths, induction) for found in paths]
        return " ".join([f"In layer {layer} {first}.", *also(layer, more)])
    whole = f"Layer {layer} joins the two tokens of every fact: the second token of each pair attends to the first"
    heads = f"heads {spans(f.path.head for f in joining)}, " if len({f.path.head for f in joining}) > 1 else ""
    rest = (attends(found, roles, paths, induction) for found in paths if found not in joining)
    return " ".join([f"{whole} ({heads}{strengths(joining)}).", *also(layer, rest)])


def also(layer: int, clauses: Iterable[str]) -> list[str]:
    """The further sentences about a layer, one for each clause."""
    return [f"Also in layer {layer}, {clause}." for clause in clauses]


def joins_fact(path: Path) -> bool:
    """Whether a path leads from the second token of a fact to its first."""
    return path.chain == "same" and path.query == f"value[{step_of(path.query)}]" and path.key == f"key{path.query[5:]}"


def attends(found: Found, roles: Sequence[str], beside: Sequence[Found], induction: frozenset[Path]) -> str:
    """A clause that says which role attends to which, and its mean attention.

    The head is named if a path of this layer uses another head than the first.
    """
    path = found.path
    target = role_words(path.key, roles) + (" of other chains" if path.chain == "other" else "")
    rule = f", {RULES[found.hypothesis]}" if found.hypothesis in RULES else ""
    if found.is_asleep:
        target, rule = f"{target} in the circuit, but the full model does not use this path", ""
    head = f"head {path.head}, " if path.head > 0 or any(other.path.head > 0 for other in beside) else ""
    kind = ", an induction head" * (path in induction and not found.is_asleep)
    return f"{role_words(path.query, roles)} attends to {target}{rule} ({head}{strengths([found])}{kind})"


def role_words(role: str, roles: Sequence[str]) -> str:
    """A role in words. Symbols x1, x2 … are named only where every fact has one premise, so that there is a chain."""
    match = ROLE.fullmatch(role)
    if not match:
        return "the query" if role == "query" else f"the positions of role {role}"
    kind, step, number = match.groups()
    if number:
        return f"the {ORDINALS[int(number)] if int(number) < len(ORDINALS) else number + 'th'} premise of fact {step}"
    if premise(f"key[{step},1]") and f"key[{step},1]" in roles:
        return f"the conclusion of fact {step}"
    place, symbol = ("first", int(step) - 1) if kind == "key" else ("second", int(step))
    held = "" if any(map(premise, roles)) else f" (x{symbol})"
    return f"the {place} token of fact {step}{held}"


def step_of(role: str) -> int:
    """The number of a role's fact, from 1; 0 for a role that belongs to no fact, such as the query."""
    match = ROLE.fullmatch(role)
    return int(match[2]) if match else 0


def premise(role: str) -> bool:
    """Whether a role is one of several premises."""
    match = ROLE.fullmatch(role)
    return bool(match and match[3])


def strengths(paths: Sequence[Found]) -> str:
    """`mean attention 1.00`, or the range of several."""
    low, high = (f"{value:.2f}" for value in (min(f.strength for f in paths), max(f.strength for f in paths)))
    return f"mean attention {low}" if low == high else f"mean attention {low} to {high}"


def repeated(circuit: Circuit) -> list[str]:
    """A sentence for each pair of roles that several heads connect, in any layers."""
    kinds: dict[tuple[str, str, str], list[Path]] = {}
    for found in sorted(circuit.paths, key=lambda found: found.path):
        kinds.setdefault((found.path.query, found.path.key, found.path.chain), []).append(found.path)
    sentences = []
    for same in kinds.values():
        if len(same) > 1:
            layers = sorted({path.layer for path in same})
            at = f"in layers {spans(layers)}" if len(layers) > 1 else f"in {len(same)} heads of layer {layers[0]}"
            sentences.append(f"The path {arrow(same[0])} occurs {times(len(same))}, {at}.")
    return sentences


def feeding(circuit: Circuit) -> list[str]:
    """A sentence for each head whose output later heads read as query, key or value (`Circuit.supplies`)."""
    fed: dict[tuple[str, str], list[str]] = {}
    for supply in sorted(circuit.supplies, key=lambda s: (s.source, PARTS.index(s.part), s.path)):
        targets = fed.setdefault((head_of(supply.source), supply.part), [])
        targets += [head_of(supply.path)] if head_of(supply.path) not in targets else []
    by_source: dict[str, list[str]] = {}
    for (source, part), targets in fed.items():
        by_source.setdefault(source, []).append(f"the {PLURALS[part][len(targets) > 1]} of {listed(targets)}")
    return [f"{source} feeds {listed(parts)}." for source, parts in by_source.items()]


def unnamed(circuit: Circuit) -> list[str]:
    """The rows that the circuit needs whole, because no path describes them."""
    if not circuit.rows:
        return []
    rows, their = listed(map(str, circuit.rows)), "their" if len(circuit.rows) > 1 else "its"
    why = f"because no path accounts for {their} attention"
    needs = "The circuit also needs" if circuit.paths else "It found"
    return [f"{needs} {count(len(circuit.rows), 'whole row')}, {why}: {rows}."]


# What it is worth ------------------------------------------------------------------------------------------------


#: The tests in which the circuit's attention is computed by the model, with what becomes of everything else.
LIVE = {"live": "all but its paths null", "rows": "all but their rows null", "average": "all other heads mean-ablated"}


def loss_words(circuit: Circuit) -> list[str]:
    """The circuit's loss in every test, beside the full model's loss and the loss with every head null."""
    if not circuit.accepted and not circuit.units:
        return []
    loss = {name: digits(value.mean, circuit.unit) for name, value in circuit.losses.items()}
    live = listed(f"{loss[test]} with {words}" for test, words in LIVE.items() if test in loss)
    return [
        f"The circuit's loss is {loss['circuit']} with every pattern set by hand. With its attention as computed, "
        f"the loss is {live}. The full model's loss is {loss['model']}, and with every head null it is "
        f"{loss['null']}. A circuit's loss must stay below {circuit.threshold:.2g}.",
        *identity_nulls(circuit),
        *untested_averages(circuit),
    ]


def untested_averages(circuit: Circuit) -> list[str]:
    """A sentence where the model does not allow the test with mean ablation."""
    if circuit.protocol.get("averaged") != 0:
        return []
    return ["Mean ablation was not tested, because the outputs of this model's heads cannot be replaced."]


def identity_nulls(circuit: Circuit) -> list[str]:
    """A sentence where the null of some rows is identity, and that of the others is not."""
    heads: dict[str, None] = dict.fromkeys(row.split(" ")[0] for row in circuit.protocol.get("identity", ()))
    null = circuit.protocol.get("null", "uniform")
    if not heads or null == "identity":
        return []
    return [f"Some rows of {listed(heads)} have the identity null, which harms the model less than the {null} null."]


def untouched(circuit: Circuit) -> list[str]:
    """A sentence on needed rows outside the circuit that the null leaves unchanged, and on which test removes them."""
    if not circuit.intact:
        return []
    tested = "only the test with mean ablation removes" if "average" in circuit.losses else "no test removes"
    null, them = circuit.protocol.get("null", "uniform"), "them" if len(circuit.intact) > 1 else "it"
    does = "attend as they do" if len(circuit.intact) > 1 else "attends as it does"
    unchanged = f"Under the {null} null {listed(circuit.intact)} {does} in the full model"
    return [f"{unchanged}, which needs {them}; {tested} {them}."]


ONE_LESS = "With one path left out the loss, in the test in which it is greatest,"


def removal_costs(circuit: Circuit) -> list[str]:
    """The greatest loss without each path, or the extremes of more than four. Then the paths that can be spared."""
    ranked = sorted(circuit.paths, key=lambda found: (-found.worst_removal, found.path))
    if not ranked:
        return []
    each = [f"{digits(found.worst_removal, circuit.unit)} ({path_name(found.path)})" for found in ranked]
    sentence = f"{ONE_LESS} is " + (listed(each) if len(each) <= 4 else f"between {each[-1]} and {each[0]}") + "."
    within = [found for found in ranked if found.worst_removal < circuit.threshold]
    if not within or not circuit.accepted:
        return [sentence]
    names = listed((path_name(found.path) for found in within), last="or")
    right = [share for found in within for share in found.removal_accuracies.values()]
    least = circuit.protocol.get("demands", {}).get("accuracy", 0.0)
    also = f", with at least {min(right):.1%} of the answers right ({least:.1%} are asked)" if right else ""
    return [sentence, f"Without {names} alone the loss stays below the threshold in every test{also}."]


def size(circuit: Circuit, task: Task, least: int | None) -> str:
    """The numbers of heads and layers, the minimum of layers by theory, and the level of minimality."""
    heads = {(found.path.layer, found.path.head) for found in circuit.paths}
    heads |= {(row.layer, row.head) for row in circuit.rows}
    layers = len({layer for layer, _ in heads})
    words = f"The circuit uses {count(len(heads), 'head')} in {count(layers, 'layer')}"
    level = f" {LEVELS[circuit.minimality]}" if circuit.minimality else ""
    problem = f"for D = {hops}" if (hops := getattr(task, "n_hops", None)) else "for this task"
    if least is None:
        return f"{words}.{level}"
    if layers == least:
        return f"{words}, the minimum that theory gives {problem}.{level}"
    if layers < least:
        return f"{words}, fewer than the {least} that theory gives as the minimum {problem}.{level}"
    return f"{words}. The minimum that theory gives {problem} is {count(least, 'layer')}.{level}"


#: The four levels of minimality (Hadad et al., 2026), as far as they were tested.
LEVELS = {
    "cardinal": "No smaller set passes the tests (cardinally minimal).",
    "subset": "No proper subset of the circuit passes the tests (subset-minimal).",
    "local": "The circuit fails without any single one of its paths and rows (locally minimal).",
    "quasi": "The circuit fails without some of its paths and rows; other removals are undecided (quasi-minimal).",
}


def others(circuit: Circuit) -> list[str]:
    """The other minimal circuits, by the paths and rows in which they differ; and what is claimed of unlisted ones."""
    if circuit.family:
        return circuit.family.words()
    n, claim = len(circuit.alternatives), circuit.completeness.claim
    if n < 2:
        return [] if claim != "not claimed" else [f"Other circuits may exist: {circuit.completeness.how}."]
    sets = [{*one.rows} for one in circuit.listed]
    rows = (f"the whole row {row}" for row in sorted(sets[0].union(*sets) - sets[0].intersection(*sets)))
    differing, n_shared = listed([*map(path_name, circuit.interchangeable), *rows]), len(circuit.backbone)
    number, more = f"The search found {n} minimal circuits", MORE[claim].format(size=circuit.completeness.size)
    shared = count(n_shared, "path") if n_shared else "no path"
    return [f"{number}. They share {shared} and differ in {differing}, which are interchangeable. {more}"]


MORE = {
    "proven": "There are no others of up to {size} paths or rows.",
    "searched": "The search ended without finding others.",
    "not claimed": "There may be more.",
}


def takeover_words(circuit: Circuit) -> list[str]:
    """Sentences on heads that take over from silenced paths and, if completeness is proven, on other spared paths."""
    kinds = {"backup": "a backup, whose attention rises then", "double": "a double, whose attention does not rise then"}
    with_takeover = {takeover.silenced for takeover in circuit.takeovers}
    alone = [path_name(path) for path in circuit.spared if path not in with_takeover]
    takers = [f"{takeover} ({kinds[takeover.kind]})." for takeover in circuit.takeovers]
    if alone and circuit.completeness.claim == "proven":  # otherwise `others` gives it as the reason
        takers.append(f"Without {listed(alone, last='or')} alone the full model's loss stays below the threshold.")
    return takers


# Symbols --------------------------------------------------------------------------------------------------------------


def symbols_at(batch: Batch, row: int) -> list[str]:
    """The name of the symbol at every position of one sequence, as in its problem; `·` where there is none.

    A suffix that gives the place (`a@3` in hop_k) is dropped.
    """
    task, inputs = batch.task, batch.inputs[row]
    if isinstance(task, VectorTask):
        seen = inputs[:, : task.d_symbol]
    else:
        seen = (task.shown(batch)[row] if isinstance(task, TokenTask) else inputs).reshape(len(inputs), -1)
    named = {
        tuple(value.reshape(-1).tolist()): name.split("@")[0] for name, value in task.values(batch.draw, row).items()
    }
    return [named.get(tuple(symbol.tolist()), "·") for symbol in seen]
