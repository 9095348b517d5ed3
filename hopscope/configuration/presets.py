"""Presets: the paper's training settings (Musat, ICLR 2025, sections 7.1, 8.1, 9.1), and shorter ones.

An option given beside a preset overrides it.

The paper's presets hold what it states: RoPE's position code with base 10,000 (section 6), GPT-2's initialisation,
whose recipe it follows (section 7.1), and no prior. Its "262k" is read as 2^18. What it leaves open is in `OPEN`
(docs/fidelity.md). The order of the facts matters most, so it is part of the preset's name: `transformer_d` has the
nearest facts first, `transformer_d_deepest` the deepest.

Presets named `…_prior`, and `three_hops`, `five_hops` and `minimum_depth`, add what the paper does not have: a learnt
bias by distance, which in layer 0 starts at 4 for the previous token. A head that joins the two tokens of a fact is
then present from the start, and training is short. These presets take the order of section 3.1, deepest facts first,
and two choices of ours: base 100 and the initialisation `early_layers`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.core.settings import check_choice
from hopscope.models.transformer import Architecture


class Recipe(NamedTuple):
    """A preset: values by part of a configuration; a setting that is not named has its default."""

    summary: str
    task: dict[str, Any]
    model: dict[str, Any]
    training: dict[str, Any]
    task_name: str = "retrieval"

    def config(self, **training: Any) -> Config:
        """The configuration, with some training settings replaced. Raises BadInput."""
        kind = catalogue.find("tasks", self.task_name)
        return Config(
            kind.from_dict(self.task),
            Architecture.from_dict(self.model),
            Training.from_dict({**self.training, **training}),
        )


#: The presets' reading of what the paper leaves open; each is an option (docs/fidelity.md).
OPEN: dict[str, dict[str, Any]] = {
    "task": {"position_code": "token"},
    "model": {"causal": True, "positions": "input"},
    "training": {"clip": None, "warmup": 0, "schedule": "constant", "beta1": 0.9, "beta2": 0.999, "decay_on": "all"},
}


def as_written(summary: str, task: dict[str, Any], model: dict[str, Any], training: dict[str, Any]) -> Recipe:
    """One of the paper's recipes, nearest facts first: the values it states for all recipes, then for this one."""
    same_task = {"n_chains": 4, "d_symbol": 4, "position_base": 10_000.0, "order": "nearest_first"}
    same_training = {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.1}
    return Recipe(
        summary,
        {**OPEN["task"], **same_task, **task},
        {**OPEN["model"], "init": "gpt2", "layer_norm": True, **model},
        {**OPEN["training"], **same_training, **training},
    )


def deepest(recipe: Recipe) -> Recipe:
    """The same recipe with the deepest facts first."""
    return recipe._replace(
        summary=f"{recipe.summary}; deepest facts first", task={**recipe.task, "order": "deepest_first"}
    )


ABC = as_written(
    "Transformers A, B and C: 12 layers, one head, D = 3 (section 8.1); the three differ by seed",
    {"n_hops": 3},
    {"n_layers": 12, "n_heads": 1, "d_model": 128, "mlp": True},
    {"steps": 24_000, "batch": 128, "examples": 1 << 18, "checkpoints": "1000", "log_every": 50},
)

D = as_written(
    "Transformer D: 24 layers, one head of width 16, no MLP, D = 4 (section 9.1)",
    {"n_hops": 4},
    {"n_layers": 24, "n_heads": 1, "d_model": 512, "d_head": 16, "mlp": False},
    {"steps": 6400, "batch": 256, "examples": 1 << 18, "checkpoints": "80", "log_every": 20},
)

FIGURE_4 = as_written(
    "figure 4 with implicit curriculum: D = 5, 8 heads, here with 8 of its 1 to 8 layers (section 7.1)",
    {"n_hops": 5},
    {"n_layers": 8, "n_heads": 8, "d_model": 128, "mlp": True},
    {"steps": 10_000, "batch": 512, "examples": 1 << 20, "checkpoints": "1000", "log_every": 20},
)

NO_CURRICULUM = FIGURE_4._replace(
    summary="figure 4 without implicit curriculum: D = 3 (section 7.1)",
    task={**FIGURE_4.task, "n_hops": 3, "curriculum": "none"},
)

#: The paper's recipes by name, in both orders.
AS_WRITTEN = {"figure_4": FIGURE_4, "figure_4_no_curriculum": NO_CURRICULUM, "transformer_abc": ABC, "transformer_d": D}
PAPER = AS_WRITTEN | {f"{name}_deepest": deepest(recipe) for name, recipe in AS_WRITTEN.items()}

#: Our settings before there were runs without a prior; trained runs depend on them.
EARLY = {"init": "early_layers", "positions": "input"}
#: The prior: every score gets a learnt bias by distance, which in layer 0 starts on the previous token.
PRIOR = "relative(start='L0 1:4')"


def with_prior(summary: str, hops: int, model: dict[str, Any], steps: int, **training: Any) -> Recipe:
    """A recipe with the prior, deepest facts first, in bfloat16; the rate falls linearly over the last half."""
    model = {**EARLY, "d_model": 128, "mlp": True, **model, "positions": PRIOR}
    falling = {"schedule": "linear", "decay_steps": steps // 2, "dtype": "bfloat16", "checkpoints": "10:300,100"}
    return Recipe(
        f"{summary}; with a prior for the previous token in layer 0",
        {"n_hops": hops, "order": "deepest_first", "position_base": 100.0},
        model,
        {"steps": steps, **falling, **training},
    )


GPT2_POSITIONS = Recipe(
    "D = 2 in 4 layers of one head, without a prior: a plateau, the first hop at once, then the second; the defaults "
    "of 'hopscope train retrieval'",
    {"n_hops": 2, "order": "deepest_first", "position_base": 10_000.0},
    {"n_layers": 4, "n_heads": 1, "d_model": 128, "mlp": False, "init": "gpt2", "positions": "learned"},
    {"steps": 2000},
)

RECIPES = {
    "demo": GPT2_POSITIONS._replace(
        summary="gpt2_positions at half its width, the rate falling at the end: both hops solved in a minute; what "
        "'hopscope demo' trains",
        model={**GPT2_POSITIONS.model, "d_model": 64},
        training={"steps": 1200, "schedule": "linear", "decay_steps": 600, "checkpoints": "20:600,100"},
    ),
    "gpt2_positions": GPT2_POSITIONS,
    **PAPER,
    "transformer_abc_prior": with_prior(
        "the shape of Transformers A, B and C, D = 3", 3, {"n_layers": 12, "n_heads": 1}, 600
    ),
    "transformer_d_prior": with_prior(
        "the shape of Transformer D, D = 4",
        4,
        {"n_layers": 24, "n_heads": 1, "d_model": 512, "d_head": 16, "mlp": False},
        500,
    ),
    "figure_4_prior": with_prior(
        "figure 4's D = 5 with 8 heads, here with 6 of its 1 to 8 layers", 5, {"n_layers": 6, "n_heads": 8}, 600
    ),
    "packaged": Recipe(
        "D = 2 in 4 layers of one head with MLPs, nearest facts first: what the run 'packaged' was trained by",
        {"n_hops": 2, "order": "nearest_first", "position_base": 100.0},
        {**EARLY, "n_layers": 4, "n_heads": 1, "d_model": 128, "mlp": True},
        {"steps": 1000, "schedule": "linear", "decay_steps": 400, "dtype": "bfloat16", "checkpoints": "20:400,100"},
    ),
    "three_hops": with_prior(
        "D = 3 in 4 layers without MLP",
        3,
        {"n_layers": 4, "mlp": False},
        800,
        checkpoints="20:400,100",
    ),
    "five_hops": with_prior("D = 5 in 6 layers without MLP", 5, {"n_layers": 6, "mlp": False}, 1200),
    "shakespeare": Recipe(
        "a small language model of Shakespeare's plays in minutes: nanoGPT's recipe for CPUs",
        {"length": 64},
        {"n_layers": 4, "n_heads": 4, "d_model": 128, "mlp": True, "init": "gpt2", "positions": "learned"},
        {"steps": 2000, "batch": 12, "lr": 1e-3, "schedule": "cosine", "warmup": 100, "beta2": 0.99, "clip": 1.0}
        | {"decay_on": "matrices", "log_every": 100, "checkpoints": "50:500,250"}
        | {"measures": "prefix_score,previous_token_score"},
        "text",
    ),
    "minimum_depth": with_prior(
        "D = 5 in 4 layers without MLP, the fewest that can", 5, {"n_layers": 4, "mlp": False}, 1200
    ),
}


def recipe(name: str) -> Recipe:
    """A recipe by name. Raises BadInput if there is none."""
    check_choice("the preset", name, RECIPES)
    return RECIPES[name]
