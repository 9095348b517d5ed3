"""Standard measures of interpretability: each is one call that returns a table and a picture.

Every function takes any model that `hopscope.wrap` takes, wrapped or not, and models of runs.
"""

from hopscope.live.workbench.ablation import ablation as ablation
from hopscope.live.workbench.attention import attention as attention, suggested as suggested
from hopscope.live.workbench.attribution import attribution as attribution, lens as lens
from hopscope.live.workbench.base import Shown as Shown
from hopscope.live.workbench.patching import edges as edges, nodes as nodes
from hopscope.live.workbench.weights import composition as composition, qk_ov as qk_ov
