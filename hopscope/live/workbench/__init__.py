"""Standard measures of interpretability: each is one call that returns a table and a picture.

Every function takes any model that `hopscope.wrap` takes, wrapped or not, and models of runs.
"""

from hopscope.live.workbench.ablation import ablation
from hopscope.live.workbench.attention import attention, suggested
from hopscope.live.workbench.attribution import attribution, lens
from hopscope.live.workbench.base import Shown
from hopscope.live.workbench.patching import edges, nodes
from hopscope.live.workbench.weights import composition, qk_ov

__all__ = [
    "Shown",
    "ablation",
    "attention",
    "attribution",
    "composition",
    "edges",
    "lens",
    "nodes",
    "qk_ov",
    "suggested",
]
