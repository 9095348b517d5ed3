"""Initial weights with which the first layer attends to the previous position; the architecture is unchanged.

The position code of Musat (ICLR 2025, section 6) rotates by a fixed angle from one position to the next, as in RoPE (Su
et al., 2021). A head attends to the previous position if its keys read the code from the residual stream, and its
queries read the code rotated back by one step: q·k is then a sum of cos ω(distance − 1). Training could have learned
both matrices; here it starts from them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.models.base_layers import Sizes
from hopscope.tasks.base import Task

#: The setting's description, for `--help`.
LOOK_BACK = (
    "initialise layer 0 to attend to the previous position: W_Q and W_K read the inputs' position code, W_Q one step "
    "back, so that scores start near this times Σ cos ω(distance − 1); 0: weights as drawn"
)
SEEN = 256  # sequences on which the length of the residual stream is measured


def check_look_back(gain: float, shape: Sizes, task: Task) -> None:
    """Raise BadInput for a gain other than 0 if inputs carry no position code, or if widths are too small for it."""
    if not gain:
        return
    features = task.position_features()
    if features is None:
        raise BadInput(f"look-back needs inputs that carry each token's position code; those of {task.name()} do not")
    d_input, d_code = features.shape
    if shape.head_width < d_code or shape.d_model <= d_input:
        raise BadInput(
            f"look-back needs heads of width {d_code} or more and a d-model above {d_input}; "
            f"got {shape.head_width} and {shape.d_model}"
        )


@torch.no_grad()
def look_back(
    projections: Float[Tensor, "projection head d_model d_head"],
    embedding: Float[Tensor, "d_input d_model"],
    gain: float,
    shape: Sizes,
    task: Task,
) -> None:
    """Replace the first columns of every head's W_Q and W_K in `projections` (`W_QKV`), in place.

    LayerNorm centres the stream and divides it by its length, which differs slightly between tokens. Scores are
    `gain · Σ cos ω(distance − 1)` at the mean length.
    """
    device = embedding.device
    codes = [task.position_features(steps) for steps in (-1, 0)]
    stream = embedding - embedding.mean(1, keepdim=True) if shape.layer_norm else embedding
    read = torch.linalg.pinv(stream)
    inputs = task.sample(SEEN, 0).inputs.to(device)
    length = (inputs @ stream).square().mean().sqrt() if shape.layer_norm else 1.0
    scale = length * gain**0.5 * shape.head_width**0.25
    for projection, code in zip(projections[:2], codes, strict=True):
        assert code is not None  # by check_look_back
        projection[:, :, : code.shape[1]] = scale * read @ code.to(device)
