"""Building a transformer: from settings to a schedule, weights, distractors, and its known circuits.

The circuit is the schedule; everything else that the settings add has no effect on it. Which paths matter depends on
the kind of ablation, so `truth.json` lists them for each kind. A head that attends by position alone has the same
pattern in all sequences, so giving it another sequence's pattern changes nothing. And where patterns are set by hand,
no path is needed that only tells other heads where to attend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hopscope.builds.idle import chatter, idle, rotate
from hopscope.builds.plan import Head, Plan, make_plan
from hopscope.builds.stream import Arc
from hopscope.builds.truth import carriers, circuits, resampled
from hopscope.builds.weights import Assembler, Sheet, register
from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, Settings, setting
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.problem.shapes import parse_order
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.theory.algorithms.base import MERGINGS

PlainTask = Retrieval | SymbolicRetrieval
UNUSED = ("zero", "dead", "noisy")
SCRATCH = 16  # dimensions that noise is written to and nothing reads
SURE = 25.0  # logit, in nats, of a built model's answer


@dataclass(frozen=True)
class Build(Settings):
    """How a transformer is built by hand."""

    algorithm: str = setting("doubling", "the algorithm that solves the task, a file of theory/algorithms")
    merging: str = setting("query", "what gathers the facts: query, or chain (where possible)", choices=MERGINGS)
    mask: str = setting("causal", "causal, or none", choices=("causal", "none"))
    layers: int | None = setting(None, "number of layers; default the fewest that the algorithm needs", low=1, high=256)
    heads: int = setting(1, "heads per layer", low=1, high=64)
    spread: bool = setting(False, "spread the paths of a layer over its heads")
    twins: int = setting(0, "heads that have a twin, either of which suffices", low=0, high=64)
    unused: str = setting(
        "zero",
        "heads without a task: zero weights; dead, they attend but write nothing; or noisy, "
        "they write where nothing reads",
        choices=UNUSED,
    )
    extra_mlp: int = setting(0, "neurons per layer that write where nothing reads", low=0, high=65536)
    rotate: bool = setting(False, "rotate the residual stream, and every head's space, at random")
    seed: int = setting(0, "of placement, noise and rotations; the circuit does not depend on it", low=0)


@dataclass(frozen=True)
class Built:
    """A hand-made model, as `hopscope.runs.from_weights` stores it, and what is known of it (`truth.json`)."""

    config: Config
    model: Transformer
    truth: dict[str, Any]


def build(task: Task, settings: Build | None = None) -> Built:
    """Build a transformer that solves plain retrieval.

    Args:
        task: `retrieval` or `symbolic_retrieval`, with one order of steps for all sequences.
        settings: the build's settings; by default, the doubling algorithm at minimal depth.

    Raises:
        BadInput: the task is another, its order is shuffled, its position code cannot tell its positions apart, or
            the settings ask for fewer layers or more twins than are possible.
    """
    if not isinstance(task, Retrieval | SymbolicRetrieval):
        raise BadInput(f"builds are for retrieval and symbolic_retrieval; got {task.name()}")
    settings = settings or Build()
    sheet = sheet_of(task)
    random = generator(settings.seed, "build", 0)
    schedule = place(plan_schedule(task, settings), settings, random)
    plan = make_plan(schedule, task.n_hops, [int(name[1:]) for name in task.hop_names])
    twins = choose_twins(plan, settings, sheet.roles_known, random)
    n_layers = settings.layers or max(path.layer for path in schedule) + 1
    assembler = Assembler(plan, sheet, n_layers, twins)
    model = finish(assembler, task, settings, random)
    origin = {"by": "build", **settings.identifying()}
    config = Config(task, model.architecture, Training(steps=0, seed=settings.seed), origin)
    return Built(config, model.eval(), truth(assembler, schedule, twins, settings))


# The schedule ----------------------------------------------------------------------------------------------------


def sheet_of(task: PlainTask) -> Sheet:
    """What the weights need to know about a task. Raises BadInput for a task that no build can solve."""
    if parse_order(task.order, task.n_hops) is None:
        raise BadInput("a build needs one order of the steps for all sequences; choose another --order than shuffled")
    batch = task.sample(1)
    held = batch.roles.held()[0].int().argmax(0)
    roles = [batch.roles.names[role] for role in held.tolist()]
    if isinstance(task, SymbolicRetrieval):
        slow = 5.0 / task.n_positions  # radians per position: less than a turn in all
        return Sheet(task.d_vocab, True, roles, (1.0, slow), roles_known=True)
    if task.position_code != "token":
        raise BadInput("a build needs the code of each token's position; choose --position-code token")
    if task.d_symbol < 4:
        raise BadInput("a build needs a position code of two speeds or more; choose --d-symbol 4")
    speeds = [task.position_base ** (-2 * i / task.d_symbol) for i in range(task.d_symbol // 2)]
    if Arc(range(4), len(roles), speeds[-1]).room <= speeds[-1]:
        raise BadInput(
            f"the position code comes round within the sequence's {len(roles)} positions, so that a build cannot tell "
            "them apart; choose --position-base 10000, or fewer chains"
        )
    return Sheet(task.d_symbol, False, roles, speeds, roles_known=False)


def plan_schedule(task: PlainTask, settings: Build) -> list[Path]:
    """The algorithm's paths, moved one layer later if its first layer looks up a symbol."""
    algorithm = catalogue.find("theory.algorithms", settings.algorithm)
    order = parse_order(task.order, task.n_hops)
    paths: list[Path] = algorithm(task.n_hops, order, settings.mask == "causal", settings.merging)
    looks_up = any(path.layer == 0 and path.query == "query" for path in paths)
    return [replace(path, layer=path.layer + looks_up) for path in paths]


def place(paths: list[Path], settings: Build, random: torch.Generator) -> list[Path]:
    """Choose layers of the model for the schedule's layers, and heads for its paths. Raises BadInput."""
    needed = max(path.layer for path in paths) + 1
    n_layers = settings.layers or needed
    if n_layers < needed:
        raise BadInput(f"{settings.algorithm} needs {needed} layers here; got {n_layers}")
    chosen = sorted(torch.randperm(n_layers, generator=random)[:needed].tolist())
    placed = []
    for layer in range(needed):
        heads = torch.randperm(settings.heads, generator=random).tolist()
        for index, path in enumerate(sorted(p for p in paths if p.layer == layer)):
            head = heads[index % settings.heads if settings.spread else 0]
            placed.append(replace(path, layer=chosen[layer], head=head))
    return sorted(placed)


def choose_twins(plan: Plan, settings: Build, roles_known: bool, random: torch.Generator) -> dict[Head, Head]:
    """Random heads that get a twin, each with its twin. Raises BadInput if fewer than asked for can have one."""
    free = {
        layer: [h for h in range(settings.heads) if (layer, h) not in plan.heads]
        for layer in {layer for layer, _ in plan.heads}
    }
    able = [head for head in plan.heads if can_have_twin(plan, head, roles_known)]
    twins: dict[Head, Head] = {}
    for index in torch.randperm(len(able), generator=random).tolist():
        layer, _ = head = able[index]
        if len(twins) < settings.twins and free[layer]:
            twins[head] = (layer, free[layer].pop(int(torch.randint(len(free[layer]), (1,), generator=random))))
    if len(twins) < settings.twins:
        raise BadInput(
            f"at most {len(twins)} of these heads can have a twin, not {settings.twins}; a twin needs a second head in "
            "its layer (--heads), and often an idle layer before or after it (--layers)"
        )
    return twins


def can_have_twin(plan: Plan, head: Head, roles_known: bool) -> bool:
    """Whether an MLP can join what a head and its twin copied before a later head matches it."""
    layer, _ = head
    if layer == 0 and not roles_known:  # neither can see yet whether it attended correctly
        return False
    for other in plan.heads.values():
        for match in other.matches.values():
            measured = match.key.address[:1] == (head,)
            gated = match.query.address[:1] == (head,) and len(other.kinds()) > 1
            if (measured or gated) and other.head[0] < layer + 2:
                return False
    return True


# The model -------------------------------------------------------------------------------------------------------


def finish(assembler: Assembler, task: PlainTask, settings: Build, random: torch.Generator) -> Transformer:
    """The transformer with all its weights: those of the circuit, and those that have no effect."""
    scratch = assembler.at.add("scratch", SCRATCH)
    heads = assembler.head_weights()
    d_model = assembler.at.width
    d_head = max(max(w["W_Q"].shape[1], w["W_V"].shape[1]) for w in heads.values())
    d_mlp = max(1, max(len(n.reads) for n in assembler.neurons)) + settings.extra_mlp
    architecture = Architecture(
        n_layers=assembler.n_layers,
        n_heads=settings.heads,
        d_model=d_model,
        d_head=d_head,
        d_mlp=d_mlp,
        causal=settings.mask == "causal",
        layer_norm=False,
        init="early_layers",
        positions=None,
        mlp=True,
    )
    state = {
        name: torch.zeros_like(p, dtype=torch.double)
        for name, p in Transformer.for_task(architecture, task).named_parameters()
    }
    embed(state, assembler, task)
    for layer in range(assembler.n_layers):
        prefix = f"blocks.{layer}."
        for head in range(settings.heads):
            weights = heads.get((layer, head)) or idle(settings.unused, d_model, d_head, scratch, random)
            set_head(state, prefix + "attn.", head, weights)
        for name, value in assembler.neurons[layer].weights(d_model, d_mlp).items():
            state[f"{prefix}mlp.{name}"] = value
        chatter(state, f"{prefix}mlp.", settings.extra_mlp, scratch, random)
    if settings.rotate:
        rotate(state, d_head, random)
    model = Transformer.for_task(architecture, task)
    model.load_state_dict({name: value.float() for name, value in state.items()})
    return model


def embed(state: dict[str, Tensor], assembler: Assembler, task: PlainTask) -> None:
    """Embed inputs into their registers, and read answers from theirs."""
    plan, at, width = assembler.plan, assembler.at, assembler.sheet.d_symbol
    symbol, code = at["symbol"], at["place"]
    if isinstance(task, Retrieval):
        for i, dimension in enumerate([*symbol, *code]):
            state["W_E"][i, dimension] = 1.0
    else:
        state["W_E"][range(width), list(symbol)] = 1.0
        angles = torch.arange(task.n_positions)[:, None] * torch.tensor(assembler.sheet.speeds, dtype=torch.double)
        state["W_pos"][:, list(code)] = torch.cat([angles.cos(), angles.sin()], -1)
        for position, role in enumerate(assembler.sheet.roles):
            state["W_pos"][position, assembler.role(role)] = 1.0
    for index, hop in enumerate(sorted(plan.answers)):
        answer = at[register(plan.answers[hop])]
        state["W_U"][list(answer), range(index * width, (index + 1) * width)] = SURE if assembler.sheet.unit else 1.0


def set_head(state: dict[str, Tensor], prefix: str, head: int, weights: dict[str, Tensor]) -> None:
    """Put one head's weights into the layer's wider ones; queries are multiplied by √d_head to undo scaling."""
    d_head = state[prefix + "W_O"].shape[1]
    for index, name in enumerate("QKV"):
        value = weights[f"W_{name}"] * (d_head**0.5 if name == "Q" else 1)
        state[prefix + "W_QKV"][index, head, :, : value.shape[1]] = value
    bias = weights["b_Q"] * d_head**0.5
    state[prefix + "b_QKV"][0, head, : len(bias)] = bias
    state[prefix + "W_O"][head, : len(weights["W_O"])] = weights["W_O"]


# The truth -------------------------------------------------------------------------------------------------------


def truth(assembler: Assembler, schedule: list[Path], twins: dict[Head, Head], settings: Build) -> dict[str, Any]:
    """The content of `truth.json`: schedule, heads, and all minimal circuits for each kind of ablation."""
    heads = sorted({(path.layer, path.head) for path in schedule} | set(twins.values()))
    return {
        **settings.as_dict(),
        "schedule": [path.as_dict() for path in schedule],
        "useful_heads": [list(head) for head in heads],
        "twins": [[list(head), list(twin)] for head, twin in twins.items()],
        "circuits": {
            "uniform": circuits(schedule, twins),
            "identity": circuits(schedule, twins),
            "resample": [[path.as_dict() for path in resampled(assembler.plan, schedule, twins)]],
            "hard": circuits(carriers(assembler.plan, schedule), twins),
        },
        "registers": None if settings.rotate else {n: [d.start, d.stop] for n, d in assembler.at.items()},
    }
