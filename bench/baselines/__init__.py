"""Other people's ways to find a circuit, lifted to our unit, the path: a file each, by its name."""

from bench.baselines.acdc import acdc
from bench.baselines.attention_weight import attention_weight
from bench.baselines.attribution import attribution
from bench.baselines.base import Baseline
from bench.baselines.eap_gp import eap_gp
from bench.baselines.integrated_gradients import integrated_gradients
from bench.baselines.learned_masks import learned_masks
from bench.baselines.random_order import random_order
from bench.baselines.relp import relp

BASELINES: dict[str, Baseline] = {
    "acdc": acdc,
    "attention_weight": attention_weight,
    "attribution": attribution,
    "eap_gp": eap_gp,
    "integrated_gradients": integrated_gradients,
    "learned_masks": learned_masks,
    "random_order": random_order,
    "relp": relp,
}
