"""A circuit in plain words, from nothing but the circuit: what each layer does, what it is worth, what it could be.

The words of roles are those of docs/contracts.md told at length: `value[2]` is the second token of fact 2. The paper
(Musat, ICLR 2025, section 8.2) tells its circuits like this, by hand.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from hopscope.circuits.algorithm import algorithm_words, induction_heads
from hopscope.circuits.circuit import Circuit, Found
from hopscope.circuits.speech import arrow, count, digits, do, head_of, spans, times, told
from hopscope.core.wording import listed
from hopscope.problem.paths import Path
from hopscope.problem.relations import PLACES, WORDS, Relations
from hopscope.tasks.base import Batch, Task, TokenTask, VectorTask

ROLE = re.compile(r"(key|value)\[(\d+)(?:,(\d+))?\]")
ORDINALS = ("", "first", "second", "third", "fourth")
#: What a rule adds to who attends to whom; a rule that only names the role adds nothing.
RULES = {
    "previous position": "one position back",
    "same symbol": "which holds its own symbol",
    "after the same symbol": "which follows its own symbol",
}

PARTS = ("query", "key", "value")
PLURALS = {"query": ("query", "queries"), "key": ("key", "keys"), "value": ("value", "values")}


def paragraph(circuit: Circuit, task: Task, least: int | None = None) -> str:
    """A circuit in plain words: what it does layer by layer, its losses, what leaving out costs, its size.

    Args:
        circuit: accepted or not; of one that is not, it is said why, and what the search came to.
        task: that it is a circuit for; its roles tell whether a layer is at work on every fact.
        least: the number of layers that any solution needs, from theory; without it no minimum is spoken of.

    Returns:
        Sentences in one line. Equal circuits give equal words.
    """
    searched = task.sample(1).searched
    if isinstance(searched, Relations):
        return as_relations(sentences(circuit, task, least, searched.names))
    return sentences(circuit, task, least, searched.names)


def as_relations(words: str) -> str:
    """Words on a circuit with relations at length, in the place of roles."""
    return NAMED.sub(lambda found: (PLACES | WORDS).get(found[1], found[0]), words)


NAMED = re.compile(r"the positions of role ([^\s,;.)]+)")


def sentences(circuit: Circuit, task: Task, least: int | None, roles: Sequence[str]) -> str:
    """The sentences of `paragraph`."""
    losses = [told_losses(circuit)] if circuit.accepted or circuit.paths else []
    heads = induction_heads(circuit)
    does = [layer_words(layer, found, roles, heads) for layer, found in by_layer(circuit.paths)]
    about = [
        *repeated(circuit.paths),
        *feeding(circuit),
        *unnamed(circuit),
        *losses,
        *untouched(circuit),
        *costs(circuit),
        *taken_over(circuit),
    ]
    if not circuit.accepted:
        return " ".join([*refusal(circuit), *does, *about])
    return " ".join([*does, *about, size(circuit, task, least), *algorithm_words(circuit, task), *others(circuit)])


def remarks(circuit: Circuit, task: Task, least: int | None = None) -> list[str]:
    """What is known of a circuit beyond its paths and their numbers, in sentences; arguments as of `paragraph`."""
    about = [*feeding(circuit), *unnamed(circuit), *taken_over(circuit)]
    if not circuit.accepted:
        return [*refusal(circuit)[1:], *about]
    return [*about, size(circuit, task, least), *algorithm_words(circuit, task), *others(circuit)]


def refusal(circuit: Circuit) -> list[str]:
    """That a circuit is not accepted, or in part; and what the search came to."""
    if circuit.verdict == "partial":
        return [f"The circuit is accepted only in part: {circuit.reason}."]
    came = "The search found no set of paths that does what the model does."
    if circuit.paths:
        came = f"The search found {count(len(circuit.paths), 'path')}, which {do(circuit.paths)} not suffice."
    if circuit.spare:
        came += f" Without {count(circuit.spare, 'further path')} that it followed the loss is the same."
    return [f"No circuit is accepted: {circuit.reason}.", came]


# What it does ----------------------------------------------------------------------------------------------------


def by_layer(paths: Iterable[Found]) -> list[tuple[int, list[Found]]]:
    """The paths of each layer, from the first layer up."""
    ordered = sorted(paths, key=lambda found: found.path)
    return [(layer, list(group)) for layer, group in itertools.groupby(ordered, lambda found: found.path.layer)]


def layer_words(
    layer: int, paths: Sequence[Found], roles: Sequence[str], induction: frozenset[Path] = frozenset()
) -> str:
    """What a layer does, a sentence for each path; one for all facts where it joins every one."""
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
    """A sentence for each further clause on a layer."""
    return [f"Also in layer {layer}, {clause}." for clause in clauses]


def joins_fact(path: Path) -> bool:
    """Whether a path joins the two tokens of a fact."""
    return path.chain == "same" and path.query == f"value[{step_of(path.query)}]" and path.key == f"key{path.query[5:]}"


def attends(found: Found, roles: Sequence[str], beside: Sequence[Found], induction: frozenset[Path]) -> str:
    """A clause: who attends to whom, how, and how strongly; the head where the layer uses several, or not the first."""
    path = found.path
    head = f"head {path.head}, " if path.head > 0 or any(other.path.head > 0 for other in beside) else ""
    target = role_words(path.key, roles) + (" of other chains" if path.chain == "other" else "")
    rule = f", {RULES[found.hypothesis]}" if found.hypothesis in RULES else ""
    rule += ": an induction head" * (path in induction)
    does = f"would attend to {target} (asleep" if found.is_asleep else f"attends to {target}{rule} ("
    return f"{role_words(path.query, roles)} {does}{', ' * found.is_asleep}{head}{strengths([found])})"


def role_words(role: str, roles: Sequence[str]) -> str:
    """A role at length. Symbols x1, x2 … are named where facts have one premise each, so that there is a chain."""
    found = ROLE.fullmatch(role)
    if not found:
        return "the query" if role == "query" else f"the positions of role {role}"
    kind, step, number = found.groups()
    if number:
        return f"the {ORDINALS[int(number)] if int(number) < len(ORDINALS) else number + 'th'} premise of fact {step}"
    if premise(f"key[{step},1]") and f"key[{step},1]" in roles:
        return f"the conclusion of fact {step}"
    place, symbol = ("first", int(step) - 1) if kind == "key" else ("second", int(step))
    held = "" if any(map(premise, roles)) else f" (x{symbol})"
    return f"the {place} token of fact {step}{held}"


def step_of(role: str) -> int:
    """The number of a role's fact; 0 for the query."""
    found = ROLE.fullmatch(role)
    return int(found[2]) if found else 0


def premise(role: str) -> bool:
    """Whether a role is one of several premises."""
    found = ROLE.fullmatch(role)
    return bool(found and found[3])


def strengths(paths: Sequence[Found]) -> str:
    """`strength 1.00`, or the range of several."""
    low, high = (f"{value:.2f}" for value in (min(f.strength for f in paths), max(f.strength for f in paths)))
    return f"strength {low}" if low == high else f"strengths {low} to {high}"


def repeated(paths: Sequence[Found]) -> list[str]:
    """A sentence for every attention that several heads do, wherever they stand."""
    kinds: dict[tuple[str, str, str], list[Path]] = {}
    for found in sorted(paths, key=lambda found: found.path):
        kinds.setdefault((found.path.query, found.path.key, found.path.chain), []).append(found.path)
    sentences = []
    for same in kinds.values():
        if len(same) > 1:
            layers = sorted({path.layer for path in same})
            at = f"in layers {spans(layers)}" if len(layers) > 1 else f"in {len(same)} heads of layer {layers[0]}"
            sentences.append(f"The attention {arrow(same[0])} occurs {times(len(same))}, {at}.")
    return sentences


def feeding(circuit: Circuit) -> list[str]:
    """A sentence for each head that tells others where to attend, or gives them what they pass on."""
    fed: dict[tuple[str, str], list[str]] = {}
    for supply in sorted(circuit.supplies, key=lambda s: (s.source, PARTS.index(s.part), s.path)):
        targets = fed.setdefault((head_of(supply.source), supply.part), [])
        targets += [head_of(supply.path)] if head_of(supply.path) not in targets else []
    by_source: dict[str, list[str]] = {}
    for (source, part), targets in fed.items():
        by_source.setdefault(source, []).append(f"the {PLURALS[part][len(targets) > 1]} of {listed(targets)}")
    return [f"{source} feeds {listed(parts)}." for source, parts in by_source.items()]


def unnamed(circuit: Circuit) -> list[str]:
    """Rows that have no path's name."""
    if not circuit.rows:
        return []
    rows, many = listed(map(str, circuit.rows)), len(circuit.rows) > 1
    why = "no role names where they attend" if many else "no role names where it attends"
    return [f"The circuit also needs {count(len(circuit.rows), 'row')} whole, for {why}: {rows}."]


# What it is worth ------------------------------------------------------------------------------------------------


def told_losses(circuit: Circuit) -> str:
    """The loss by hand and as computed, beside those of the model and of nothing; and what null means here."""
    loss = {name: digits(value.mean, circuit.unit) for name, value in circuit.losses.items()}
    whole = f", with the rows of these paths whole {loss['rows']}" if "rows" in loss else ""
    average = f", and with all other heads at their average {loss['average']}" if "average" in loss else ""
    return " ".join(
        [
            f"With all patterns set by hand the loss is {loss['circuit']}; as computed, with all else null, it is "
            f"{loss['live']}{whole}{average}. The model's own loss is {loss['model']}, and with every head idle it is "
            f"{loss['null']}. A circuit must stay below {circuit.threshold:.2g}.",
            *null_of_each(circuit),
            *unasked(circuit),
        ]
    )


def unasked(circuit: Circuit) -> list[str]:
    """A sentence where a test could not be asked for."""
    if circuit.protocol.get("averaged") != 0:
        return []
    return ["No test has all other heads at their average, for what this model's heads say cannot be replaced."]


def null_of_each(circuit: Circuit) -> list[str]:
    """A sentence where some rows' null is not that of the rest."""
    selves: dict[str, None] = dict.fromkeys(row.split(" ")[0] for row in circuit.protocol.get("identity", ()))
    if not selves or circuit.protocol.get("null", "uniform") == "identity":
        return []
    told = f"rows of {listed(selves)} attend to themselves, for they harm less so than by attending evenly"
    return [f"Where idle, {told}."]


def untouched(circuit: Circuit) -> list[str]:
    """What the null does not take from the model, and which test does."""
    if not circuit.intact:
        return []
    asked = "only the test at averages asks for" if "average" in circuit.losses else "no test asks for"
    null, them = circuit.protocol.get("null", "uniform"), "them" if len(circuit.intact) > 1 else "it"
    does = "attend as they do" if len(circuit.intact) > 1 else "attends as it does"
    return [f"Under the {null} null {listed(circuit.intact)} {does} in the model, which needs {them}: {asked} {them}."]


ONE_LESS = "With one path left out, and the others attending as computed, the loss"


def costs(circuit: Circuit) -> list[str]:
    """What leaving out each path costs, others live: all of a few, of more the most and the least."""
    ranked, of = sorted(circuit.paths, key=lambda found: (-found.removal_loss, found.path)), circuit.unit
    if not ranked:
        return []
    if len(ranked) == 1:
        sentence = f"Without {told(ranked[0].path)} the loss is {digits(ranked[0].removal_loss, of)}."
    elif len(ranked) > 4:
        most, least = (f"{digits(found.removal_loss, of)} ({told(found.path)})" for found in (ranked[0], ranked[-1]))
        sentence = f"{ONE_LESS} is between {least} and {most}."
    else:
        each = (f"{digits(found.removal_loss, of)} ({told(found.path)})" for found in ranked)
        sentence = f"{ONE_LESS} is {listed(each)}."
    at_most = {found.path: max([found.removal_loss, *found.removals.values()]) for found in ranked}
    spare = [told(found.path) for found in ranked if at_most[found.path] < circuit.threshold]
    if not spare or not circuit.accepted:
        return [sentence]
    return [sentence, f"Without {listed(spare, last='or')} alone the loss stays below the threshold."]


def size(circuit: Circuit, task: Task, least: int | None) -> str:
    """Heads and layers, against the least number of layers."""
    heads = {(found.path.layer, found.path.head) for found in circuit.paths}
    heads |= {(row.layer, row.head) for row in circuit.rows}
    layers = len({layer for layer, _ in heads})
    words = f"The circuit uses {count(len(heads), 'head')} in {count(layers, 'layer')}"
    level = f" {LEVELS[circuit.minimality]}" if circuit.minimality else ""
    asked = f"for D = {hops}" if (hops := getattr(task, "n_hops", None)) else "for this task"
    if least is None:
        return f"{words}.{level}"
    if layers == least:
        return f"{words}, the exact minimum {asked}.{level}"
    if layers < least:
        return f"{words}, fewer than the {least} that theory gives as the minimum {asked}.{level}"
    return f"{words}. The exact minimum {asked} is {count(least, 'layer')}.{level}"


#: What was tried, by the field's four levels.
LEVELS = {
    "cardinal": "No smaller set suffices (cardinally minimal).",
    "subset": "No part of it suffices (subset-minimal).",
    "local": "It does not suffice without any one part (locally minimal).",
    "quasi": "It does not suffice without some parts, and is at the threshold without others (quasi-minimal).",
}


def others(circuit: Circuit) -> list[str]:
    """The other minimal circuits, by what they exchange; and what is claimed of more."""
    if circuit.family:
        return circuit.family.words()
    n, claim = len(circuit.alternatives), circuit.completeness.claim
    if n < 2:
        return [] if claim != "not claimed" else [f"Other circuits may exist: {circuit.completeness.how}."]
    exchanged = [*map(told, circuit.interchangeable), *(f"the whole of {row}" for row in circuit.interchangeable_rows)]
    loose, firm = listed(exchanged), len(circuit.backbone)
    found, more = f"The search found {n} minimal circuits", MORE[claim].format(size=circuit.completeness.size)
    shared = count(firm, "path") if firm else "no path"
    return [f"{found}. They share {shared} and differ in {loose}, which are interchangeable. {more}"]


MORE = {
    "proven": "There are no others of up to {size} paths or rows.",
    "searched": "The search ended without finding others.",
    "not claimed": "There may be more.",
}


def taken_over(circuit: Circuit) -> list[str]:
    """Who does a path's work when that is silenced; and what of a proven circuit the model does without."""
    kinds = {"backup": "a backup that is idle otherwise", "double": "it does the same all the time"}
    told_of = {takeover.silenced for takeover in circuit.takeovers}
    alone = [told(path) for path in circuit.spared if path not in told_of]
    is_news = alone and circuit.completeness.claim == "proven"  # of others it is the reason why nothing is claimed
    takers = [f"{takeover} ({kinds[takeover.kind]})." for takeover in circuit.takeovers]
    return [*takers, *([f"As it is, the model does without {listed(alone)}."] if is_news else [])]


# Symbols --------------------------------------------------------------------------------------------------------------


def symbols_at(batch: Batch, row: int) -> list[str]:
    """The name of the symbol at every position of one sequence, as its problem has it; `·` where none of them stands.

    Names that differ only in their place (`a@3` of hop_k) are told without it.
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
