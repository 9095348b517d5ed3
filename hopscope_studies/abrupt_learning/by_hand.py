"""The induction circuit as weights of the attention classifier: a control whose progress measures are known.

The stream has no spare dimensions, but random vectors in many dimensions hardly overlap. So whatever a head writes is
first rotated by a matrix of its own, and read through the inverse. Layer 0 looks one place back and writes what it
sees. In layer 1 the query's item is matched with what was written at labels, and the label there is written to the
query. The network reads off which label that is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.abrupt_learning.models.attention_classifier import AttentionClassifier, ClassifierArchitecture

SHARP = 100.0  # score of a match, of a label's place, and of the place before
LOUD = 40.0  # logit of a label


@torch.no_grad()
def induction(task: ItemLabels) -> AttentionClassifier:
    """The circuit, for a task whose sequences begin at the first place. Raises BadInput for any other."""
    if task.code_width != task.n_positions or task.label_code != "vector":
        raise BadInput("the circuit by hand needs a one-hot place, n-places 0, and labels that are vectors")
    places, d_item = task.code_width, task.d_item
    model = ClassifierArchitecture(d_hidden=2 * task.n_labels).build(task)
    content = slice(places, places + d_item)
    first, second = (rotation(d_item, purpose) for purpose in ("first", "second"))
    model.W_Q[0, :places, :places] = SHARP * torch.eye(places).roll(-1, 1).tril()
    model.W_K[0, :places, :places] = torch.eye(places)
    model.W_V[0, content, content] = first
    model.W_Q[1, content, content] = SHARP * first
    model.W_K[1, content, content] = torch.eye(d_item)
    model.W_Q[1, places - 1, 0] = SHARP
    model.W_K[1, 1:places:2, 0] = 1
    model.W_V[1, content, content] = second
    read(model, task.label_vectors @ second, content)
    return model


def rotation(width: int, purpose: str) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(torch.randn(width, width, generator=generator(0, purpose)))[0]


def read(model: AttentionClassifier, labels: Tensor, content: slice) -> None:
    """A linear network: positive and negative parts use separate hidden units, and the last layer joins them."""
    n = len(labels)
    first, second, last = model.W
    first[content, :n], first[content, n:] = labels.T, -labels.T
    pair = torch.eye(n)
    second[:n, :n] = second[n:, n:] = pair
    last[:n], last[n:] = LOUD * pair, -LOUD * pair
