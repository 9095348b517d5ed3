"""The same model in JAX: forward, backward and optax's AdamW in one jitted step whose state is donated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax
import torch

from bench.work import LEARNING_RATE, WEIGHT_DECAY, Work


def initial(work: Work) -> dict:
    """Weights as GPT-2 draws them, biases zero."""
    keys = iter(jax.random.split(jax.random.key(0), 4 * work.model.n_layers + 2))
    d, d_mlp = work.model.d_model, work.model.mlp_width

    def linear(d_in: int, d_out: int) -> dict:
        return {"w": 0.02 * jax.random.normal(next(keys), (d_in, d_out)), "b": jnp.zeros(d_out)}

    def norm() -> dict:
        return {"w": jnp.ones(d), "b": jnp.zeros(d)}

    def block() -> dict:
        return {
            "ln1": norm(),
            "qkv": linear(d, 3 * d),
            "out": linear(d, d),
            "ln2": norm(),
            "in": linear(d, d_mlp),
            "up": linear(d_mlp, d),
        }

    return {
        "embed": linear(work.task.d_input, d),
        "blocks": [block() for _ in range(work.model.n_layers)],
        "norm": norm(),
        "unembed": linear(d, work.task.d_output),
    }


def linear(p: dict, x: jax.Array) -> jax.Array:
    return x @ p["w"] + p["b"]


def norm(p: dict, x: jax.Array) -> jax.Array:
    return jax.nn.standardize(x, epsilon=1e-5) * p["w"] + p["b"]


def attention(p: dict, x: jax.Array, n_heads: int) -> jax.Array:
    batch, n, d = x.shape
    q, k, v = jnp.moveaxis(linear(p["qkv"], x).reshape(batch, n, 3, n_heads, d // n_heads), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (d // n_heads) ** -0.5
    seen = jnp.tril(jnp.ones((n, n), bool))
    pattern = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    return linear(p["out"], jnp.einsum("bhqk,bkhd->bqhd", pattern, v).reshape(batch, n, d))


def forward(p: dict, x: jax.Array, n_heads: int, n_queries: int) -> jax.Array:
    x = linear(p["embed"], x)
    for block in p["blocks"]:
        x = x + attention(block, norm(block["ln1"], x), n_heads)
        x = x + linear(block["up"], jax.nn.gelu(linear(block["in"], norm(block["ln2"], x)), approximate=True))
    return linear(p["unembed"], norm(p["norm"], x[:, -n_queries:]))


def make(work: Work, dtype: str, compiled: bool) -> Callable[[int], float]:
    torch.set_num_threads(1)  # it only draws the batches here; its idle threads would spin in JAX's way
    optimizer = optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def loss(p: dict, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.square(forward(p, x, work.model.n_heads, work.task.n_chains) - y).mean()

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(p: dict, state: optax.OptState, x: jax.Array, y: jax.Array) -> tuple:
        value, gradient = jax.value_and_grad(loss)(p, x, y)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    parameters = initial(work)
    state = optimizer.init(parameters)

    def step(index: int) -> float:
        nonlocal parameters, state
        inputs, targets = work.draw(index)
        parameters, state, value = update(parameters, state, inputs.numpy(), targets.numpy())
        return float(value)

    return step
