"""Open a backend by name: `smollm2`, a folder, a GGUF file, a hub name, an address, `known:…`."""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.core.settings import check_choice
from hopscope.language.backends.base import DTYPES, Backend
from hopscope.language.backends.known import Known
from hopscope.language.server import Patience


def open_backend(
    name: str,
    *,
    endpoint_model: str = "",
    first_token: bool = False,
    dtype: str = "float32",
    threads: int | None = None,
    timeout: float | None = None,
    omit: Sequence[str] = (),
) -> Backend:
    """Open a model.

    Args:
        name: `known:…` (`hopscope.language.backends.known`), an http(s) address of an OpenAI-compatible endpoint, or
            anything that `hopscope.language.checkpoints.open_model` opens.
        endpoint_model: the model's name at an endpoint; may be omitted if it serves only one.
        first_token: whether an endpoint's log-likelihoods come from the first token's alternatives.
        dtype: of a model in this process.
        threads: for a model in this process.
        timeout: seconds that one request to an endpoint may take; by default 60. An endpoint that answers nothing for
            four times as long, plus one request, is given up.
        omit: fields that are never sent to an endpoint (`hopscope.language.fields`).

    Raises:
        BadInput: there is no such model, an argument is invalid, or a package is missing.
        Unreachable: the endpoint does not answer.
    """
    check_choice("dtype", dtype, DTYPES)
    if name.startswith("known:"):
        return Known(name.removeprefix("known:"))
    if name.startswith(("http://", "https://")):
        from hopscope.language.backends.endpoint import Endpoint

        patience = patience_of(timeout)
        return Endpoint(name, endpoint_model, first_token=first_token, omit=omit, patience=patience)
    from hopscope.language.checkpoints import open_model

    opened = open_model(name, dtype=dtype, threads=threads)  # first, because it reports missing packages
    from hopscope.language.backends.hugging_face import HuggingFace

    return HuggingFace(opened)


def patience_of(timeout: float | None) -> Patience:
    """The default patience, with `silence` scaled in proportion if a timeout is given."""
    usual = Patience()
    return usual if timeout is None else Patience(timeout=timeout, silence=timeout * usual.silence / usual.timeout)
