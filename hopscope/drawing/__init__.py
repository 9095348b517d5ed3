"""Drawing: tables and patterns in, matplotlib figures out. Nothing is computed or trained here."""

from hopscope.drawing.attention_maps import attention_maps, mean_role_attention
from hopscope.drawing.circuit_diagram import circuit_diagram
from hopscope.drawing.curves import compared_curves, hop_curves
from hopscope.drawing.emergence import emergence_curves, emergence_order
from hopscope.drawing.flow_diagram import flow_diagram
from hopscope.drawing.problem_diagram import problem_diagram
from hopscope.drawing.style import save

__all__ = [
    "attention_maps",
    "circuit_diagram",
    "compared_curves",
    "emergence_curves",
    "emergence_order",
    "flow_diagram",
    "hop_curves",
    "mean_role_attention",
    "problem_diagram",
    "save",
]
