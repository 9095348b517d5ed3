"""Drawing: tables and patterns in, matplotlib figures out. Nothing is computed or trained here."""

from hopscope.drawing.attention_maps import attention_maps as attention_maps, mean_role_attention as mean_role_attention
from hopscope.drawing.circuit_diagram import circuit_diagram as circuit_diagram
from hopscope.drawing.curves import compared_curves as compared_curves, hop_curves as hop_curves
from hopscope.drawing.emergence import emergence_curves as emergence_curves, emergence_order as emergence_order
from hopscope.drawing.flow_diagram import flow_diagram as flow_diagram
from hopscope.drawing.problem_diagram import problem_diagram as problem_diagram
from hopscope.drawing.style import save as save
