"""From a name to a model that can be asked: `smollm2`, a folder, a GGUF file, a hub name, an address, `known:…`."""

from __future__ import annotations

from hopscope.core.settings import BadInput
from hopscope.language.backends.base import DTYPES, Backend
from hopscope.language.backends.known import Known


def open_backend(
    name: str,
    *,
    endpoint_model: str = "",
    first_token: bool = False,
    dtype: str = "float32",
    threads: int | None = None,
) -> Backend:
    """Open a model.

    Args:
        name: `known:…` (`hopscope.language.backends.known`), an http(s) address of an OpenAI-compatible endpoint, or
            anything that `hopscope.language.checkpoints.open_model` opens.
        endpoint_model: the model's name at an endpoint; may be left out where it serves one.
        first_token: take log-likelihoods at an endpoint from the first token's alternatives.
        dtype: of a model in this process.
        threads: of a model in this process.

    Raises:
        BadInput: there is no such model, or what it needs is not installed.
        Unreachable: the endpoint does not answer.
    """
    if dtype not in DTYPES:
        raise BadInput(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
    if name.startswith("known:"):
        return Known(name.removeprefix("known:"))
    if name.startswith(("http://", "https://")):
        from hopscope.language.backends.endpoint import Endpoint

        return Endpoint(name, endpoint_model, first_token=first_token)
    from hopscope.language.checkpoints import open_model

    opened = open_model(name, dtype=dtype, threads=threads)  # complains first about what is not installed
    from hopscope.language.backends.hugging_face import HuggingFace

    return HuggingFace(opened)
