"""Language models that the caller has in memory, for the same measurements.

Studies change how a model computes attention. So they run a twin, a new Hugging Face module that shares the weights,
and the caller's model is not changed. A model may come from transformers, or in a wrapper of nnsight (Fiotto-Kaufman et
al., 2024, arXiv:2407.14561) or TransformerLens 3 (`TransformerBridge`). Neither library is imported.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.language.checkpoints import Opened, identity_of, quiet, require_extra
from hopscope.models.base import at_rest

WRAPPED = "_original_component."  # TransformerLens puts its hooks around every part under this name
CLOSE = 1e-3  # largest difference in a logit between the twin and the model


def lent(model: Any, tokenizer: Any = None, name: str = "") -> Opened:
    """A twin of a model in memory, which shares its weights; the caller's module is not changed.

    Args:
        model: a Hugging Face causal language model, an nnsight model or a TransformerLens `TransformerBridge` around
            one; on the CPU.
        tokenizer: its tokenizer; that of the wrapper by default.
        name: its name in tables; by default the name that its configuration was loaded from.

    Raises:
        BadInput: it is none of these, is not on the CPU, has no tokenizer, or its weights have been processed (folded),
            so that they no longer fit its architecture.
    """
    require_extra("transformers")
    inner = unwrapped(model)
    tokenizer = tokenizer if tokenizer is not None else getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise BadInput("questions are put in tokens, and this model has no tokenizer; give it as tokenizer=")
    elsewhere = {weight.device.type for weight in inner.parameters()} - {"cpu"}
    if elsewhere:
        raise BadInput(f"the model must be on the CPU, and is on {', '.join(sorted(elsewhere))}; move it with .cpu()")
    twin = twin_of(inner)
    check_twin(twin, model, inner)
    called = name or getattr(inner.config, "_name_or_path", "") or type(inner).__name__
    return Opened(twin, tokenizer, called.rstrip("/").rpartition("/")[2], identity_of(twin, sha256_of(twin)))


def unwrapped(model: Any) -> Any:
    """The Hugging Face model inside a wrapper. Raises BadInput if there is none."""
    from transformers import PreTrainedModel

    for inner in (model, *(vars(model).get(name) for name in ("_module", "_model") if hasattr(model, "__dict__"))):
        if isinstance(inner, PreTrainedModel):
            return inner
    bridged = getattr(model, "original_model", None)
    if isinstance(bridged, PreTrainedModel):
        return bridged
    raise BadInput(
        f"{type(model).__name__} holds no Hugging Face causal language model; give one, or a TransformerBridge or an "
        "nnsight model around one (circuits of other modules: hopscope.find_circuit)"
    )


def twin_of(inner: Any) -> Any:
    """A fresh module of the same class around the same weights, with gradients off."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(inner.config)
    config._attn_implementation = "sdpa" if inner._supports_sdpa else "eager"
    with torch.device("meta"), quiet():  # allocates nothing, because all tensors are shared with the caller's model
        twin = AutoModelForCausalLM.from_config(config)
    weights = bare(inner.state_dict())
    wanted = twin.state_dict()
    missing = sorted(wanted.keys() - weights.keys())
    if missing:
        raise BadInput(f"the model's weights are not those of a {type(twin).__name__}: there is no {missing[0]}")
    twin.load_state_dict({key: weights[key] for key in wanted}, assign=True)
    twin.tie_weights()
    buffers = bare(dict(inner.named_buffers()))
    for name in [name for name, _ in twin.named_buffers(remove_duplicate=False) if name in buffers]:
        place, _, last = name.rpartition(".")
        twin.get_submodule(place).register_buffer(last, buffers[name], persistent=False)
    return twin.eval().requires_grad_(False)


def bare(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under their Hugging Face names, without those of the wrapper."""
    return {name.replace(WRAPPED, ""): tensor for name, tensor in tensors.items()}


def check_twin(twin: Any, model: Any, inner: Any) -> None:
    """Raise BadInput unless the twin's logits agree with those of the caller's model."""
    ids = torch.arange(8)[None] % int(inner.config.vocab_size)
    with at_rest(inner), torch.no_grad():
        theirs = model(ids) if model is not inner and hasattr(model, "original_model") else inner(ids)
        far = float((getattr(theirs, "logits", theirs) - twin(ids).logits).abs().max())
    if not far <= CLOSE:
        raise BadInput(
            "the model does not compute what a Hugging Face model with its weights does (logits differ by "
            f"{far:.3g}); give it as it was loaded, without folded norms or other processing of its weights"
        )


def sha256_of(twin: Any) -> str:
    """sha256 of the weights' names and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(twin.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
