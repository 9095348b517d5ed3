"""Hand-set weights of a model that knows the right label and follows a false one: the positive control (ours).

The model is the induction circuit of items and labels, with an unembedding that also reads the class's own label from
the item. The stream holds the item from the start, so that every early layer answers by class. The head of layer 1
copies the context's label, whose logit is then twice that of the class's own label. Without that head the context has
no effect.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hopscope.builds.item_induction import LOUD, induction
from hopscope.models.transformer import Transformer
from hopscope.tasks.item_labels import ItemLabels


@torch.no_grad()
def overthinker(task: ItemLabels) -> Transformer:
    """The model, for a task with no more classes than an item has numbers, so that a linear map tells them apart."""
    model = induction(task)
    own = F.one_hot(torch.arange(task.n_classes) % task.n_labels, task.n_labels).float()
    model.W_U[: task.d_item] = LOUD / 2 * torch.linalg.pinv(task.classes) @ own
    return model
