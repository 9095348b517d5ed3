"""The models of `text_by_attention`: one small language model with several rules of attention, at equal parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.models.transformer import Architecture
from hopscope_studies.architectures.candidates import weightless

PRESET = "shakespeare"
#: Rules by name, and what each changes. SwitchHead's heads are 3/16 d wide: with the 10 matrices of a head with four
#: experts, two of them have almost as many weights as four dense heads, of 4 matrices, which are d/4 wide.
RULES: dict[str, dict[str, Any]] = {
    "softmax": {},
    "softmax, 2 heads": {"n_heads": 2},
    "kv_shift": {"attention": "kv_shift"},
    "switch_head": {"attention": "switch_head", "n_heads": 2},
    "h_minus_one": {"attention": "h_minus_one"},
}
#: Those that only scale `paper` trains.
MORE = {name: {"attention": name} for name in ("linear", "delta_rule", "state_space")}
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
#: What differs from the preset: at `cpu` half of its layers and of its width, and 500 steps in place of 2,000.
MODELS: dict[str, dict[str, int]] = {
    "quick": {"n_layers": 2, "d_model": 16},
    "cpu": {"n_layers": 2, "d_model": 64},
    "paper": {},
}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 4, "warmup": 1, "log_every": 1, "val_size": 4, "checkpoints": "2"},
    "cpu": {"steps": 500, "lr": 3e-3, "log_every": 50, "checkpoints": "100"},
    "paper": {"checkpoints": "250"},
}


def cells(scale: str) -> Iterator[tuple[str, Config]]:
    """All runs, each with the name of its rule, seed by seed."""
    for seed in range(SEEDS[scale]):
        yield from ((name, cell(name, seed, scale)) for name in RULES | (MORE if scale == "paper" else {}))


def cell(name: str, seed: int, scale: str) -> Config:
    """One run; its MLPs are as wide as its parameters allow, which are those of plain attention."""
    base = recipe(PRESET).config(**TRAININGS[scale], measures="", seed=seed)
    plain = Architecture.from_dict(recipe(PRESET).model).but(**MODELS[scale])
    d_head = 3 * plain.d_model // 16 if name == "switch_head" else None
    shape = plain.but(**(RULES | MORE)[name], d_head=d_head)
    excess = weightless(shape, base.task).n_parameters - weightless(plain, base.task).n_parameters
    narrower = round(excess / (plain.n_layers * (2 * plain.d_model + 1)))
    return Config(base.task, shape.but(d_mlp=4 * plain.d_model - narrower), base.training)
