"""Which options of `hopscope lm evaluate` say something about what is asked, and of whom."""

from __future__ import annotations

from typing import Any

from hopscope.cli.options import refuse_beside


def check_of_use(given: dict[str, Any]) -> None:
    """Raise BadInput for options that nothing of what is asked for has."""
    kinds = {name.partition(":")[0] for name in given["model"]}
    if not kinds & {"http", "https"}:
        refuse_beside("is for models at an address", "endpoint_model", "first_token", "timeout", "omit")
    if kinds <= {"http", "https", "known"}:
        refuse_beside("is for models in this process", "dtype")
    if "few_shot" not in given["layout"]:
        refuse_beside("is for the layout few_shot", "n_shots")
    if not given["benchmark"] and "resample" not in given["protocol"]:
        refuse_beside("is for the protocol resample", "max_tries", "temperature")
    if not given["benchmark"] and set(given["protocol"]) == {"log_likelihood"}:
        refuse_beside("is for protocols in which the model writes, such as greedy_strict", "max_tokens")
