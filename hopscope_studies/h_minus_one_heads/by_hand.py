"""Hand-set gates with known numbers: a control for the measures of gates (ours).

Layer 0 leaves out head 0 in periodic sequences, and head 1 in text. Its gate reads one feature of the tokens, which is
1 for tokens of the text and −1 for the others. Other weights are as initialised.
"""

from __future__ import annotations

import torch

from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture, Transformer
from hopscope_studies.h_minus_one_heads.tasks.two_kinds import TwoKinds

SHARP = 1000.0  # of the gate


def by_hand(task: TwoKinds, even: bool = False) -> Transformer:
    """A model of one layer without norms and with hand-set gates; with `even` gates it is the negative control."""
    shape = Architecture(
        n_layers=1, n_heads=4, d_model=16, mlp=False, layer_norm=False, attention="h_minus_one", init="early_layers"
    )
    model = Transformer.for_task(shape, task, generator(0, "init"))
    own = model.get_submodule("blocks.0.attn.variant")
    with torch.no_grad():
        for name in ("W_gate_in", "W_gate_out", "b_gate_out"):
            own.get_parameter(name).zero_()
        assert model.W_pos is not None
        model.W_pos[:, 0] = 0
        model.W_E[:, 0] = torch.where(torch.arange(task.d_vocab) < task.n_symbols, -1.0, 1.0)
        if not even:
            own.get_parameter("W_gate_in")[0, 0] = SHARP
            own.get_parameter("W_gate_out")[0, :2] = SHARP * torch.tensor([-1.0, 1.0])
            own.get_parameter("b_gate_out")[2:] = -SHARP
    return model
