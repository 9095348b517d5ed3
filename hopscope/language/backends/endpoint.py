"""A model at any OpenAI-compatible endpoint: llama.cpp, vLLM, a hosted one.

Text comes from /chat/completions (the `chat` layout) and /completions (the others). Log-likelihoods come from
/completions with `echo`, with one prompt per request because some servers refuse lists; or, on request, from the first
token's `top_logprobs`. A server that ignores `echo` answers 200 with the log-probability of a token that it generated
itself, and every score is at chance to four decimals (llama.cpp #27174). So each endpoint is probed once with a known
text, and refused if it does not return the log-probabilities of that text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from hopscope.core.environment import package_version
from hopscope.core.settings import BadInput
from hopscope.core.strangers import visible
from hopscope.language.backends.base import Backend, Sampling
from hopscope.language.echo import (
    ABSURD,
    KNOWN,
    LIKELY,
    alternatives,
    continuations,
    echo_of,
    echo_or_flaw,
    flaw_of,
    text_of,
)
from hopscope.language.fields import Fields
from hopscope.language.layouts.base import Rendered
from hopscope.language.server import Patience, Refused, Server
from hopscope.language.turns import Completion, completion

T = TypeVar("T")

#: Number of alternatives to the first token that are requested; most servers refuse more.
TOP = 20

#: Seeds are sent modulo this: llama.cpp keeps 32 bits, and 2^32 − 1 means a random seed.
SEEDS = 2**31

#: Advice if a server gives no log-likelihoods.
INSTEAD = "score generated text instead (--protocol greedy_lenient or resample)"

#: Fields that are sent with a request for text, and how.
SENT = {"temperature": "temperature", "max_tokens": "max_tokens", "seed": "seed modulo 2^31", "stop": "stop"}


class Endpoint(Backend):
    """A model at an HTTP endpoint.

    Args:
        url: the address before /chat/completions, such as http://127.0.0.1:8080/v1.
        model: the model's name there; may be omitted if the server lists only one.
        in_flight: how many requests run at once, at least 1.
        first_token: take log-likelihoods from the first token's most likely alternatives. This needs no `echo`, but
            every acceptable answer must be a single token among the first twenty.
        omit: fields that are never sent (`hopscope.language.fields`).
        patience: how long faults are retried.

    The key is read from HOPSCOPE_API_KEY, else from OPENAI_API_KEY. It is only sent to `url`, and never written.

    Raises:
        BadInput: an argument is invalid, or no model is named and the server does not list exactly one.
        Unreachable: no model is named and the server does not answer.
    """

    def __init__(
        self,
        url: str,
        model: str = "",
        *,
        in_flight: int = 8,
        first_token: bool = False,
        omit: Sequence[str] = (),
        patience: Patience | None = None,
    ):
        if in_flight < 1:
            raise BadInput(f"requests in flight must be at least 1; got {in_flight}")
        key = os.environ.get("HOPSCOPE_API_KEY") or os.environ.get("OPENAI_API_KEY")
        self.omitted = frozenset(omit)
        self.fields = Fields(url, omit)
        self.server = Server(url, key, in_flight=in_flight, patience=patience or Patience())
        self.batch = in_flight
        self.first_token = first_token
        try:
            self.model = model or self.only_model()
        except BaseException:
            self.close()
            raise

    def only_model(self) -> str:
        """The name of the one model that the server lists. Raises BadInput if it lists none or several."""
        if len(self.listed) != 1:
            names = f"lists {', '.join(self.listed[:5])}" if self.listed else "lists no models"
            raise BadInput(f"{self.server.url} {names}; say which one to ask (--endpoint-model NAME)")
        return self.listed[0]

    @cached_property
    def listed(self) -> list[str]:
        """The models that the server lists; [] if it keeps no list."""
        answer = self.server.get("/models")
        entries = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(entries, list):
            return []
        return [
            visible(one["id"])[:200] for one in entries if isinstance(one, Mapping) and isinstance(one.get("id"), str)
        ]

    @property
    def served(self) -> str:
        """The model's name as the server lists it, because a server with one model accepts any name."""
        if self.model in self.listed or len(self.listed) == 1:
            return self.model if self.model in self.listed else self.listed[0]
        return "not listed"

    @property
    def identity(self) -> dict[str, str | int]:
        """The endpoint's address, the model's name there, and the fields that are sent."""
        return {
            "endpoint": self.server.url,
            "model": self.model,
            "served": self.served,
            "sampling": ", ".join(how for name, how in SENT.items() if name not in self.omitted),
            "log_likelihood": f"first token among {TOP}" if self.first_token else "echo",
            "client": f"hopscope {package_version()}",
        }

    @property
    def has_chat_template(self) -> bool:
        """Always true; an endpoint without chat answers 404, which is reported as an error."""
        return True

    def close(self) -> None:
        self.server.close()

    def generate(self, requests: Sequence[Rendered], sampling: Sequence[Sampling]) -> list[Completion]:
        asked = [(r, how(r, s)) for r, s in zip(requests, sampling, strict=True)]
        texts = zip(self.ask(asked, text_of), requests, strict=True)
        completions = [completion(text, text.finish_reason, text.thoughts, request.stop) for text, request in texts]
        for one in completions:
            one.left_out = tuple(self.fields.left_out)
        return completions

    def ask(
        self, asked: Sequence[tuple[Rendered, Mapping[str, Any]]], read: Callable[[Mapping[str, Any], Any], T]
    ) -> list[T]:
        """Send each request with its fields to the path of its layout; return what `read` makes of the answers."""
        posts = []
        for request, fields in asked:
            message = {"messages": [{"role": "user", "content": request.text}]}
            body = {**(message if request.chat else {"prompt": request.text}), **fields}
            posts.append(("/chat/completions" if request.chat else "/completions", body))
        return self.post(posts, read)

    def post(self, posts: Sequence[tuple[str, Mapping[str, Any]]], read: Callable[[Any, Any], T]) -> list[T]:
        """Send bodies to their paths, without fields that the server has refused."""
        while True:
            sent = self.taken(posts)
            try:
                return self.server.post(sent, read)
            except Refused as refusal:  # a parallel request may have learned it first
                if not self.fields.learn(refusal.answer) and self.taken(posts) == sent:
                    raise

    def taken(self, posts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
        """Paths and bodies with the model's name, and only fields that the server accepts."""
        return [(path, {"model": self.model, **self.fields.taken(body)}) for path, body in posts]

    def log_likelihoods(self, requests: Sequence[Rendered]) -> list[list[float]]:
        if self.first_token:
            return self.first_tokens(requests)
        if any(request.chat for request in requests):
            raise BadInput(
                f"{self.server.url} cannot score the layout 'chat', for /chat/completions echoes no prompt; choose "
                f"another layout (--layout code), pass --first-token, or {INSTEAD}"
            )
        self.probe()
        echoes = iter(self.echoes([r.text + choice for r in requests for choice in r.choices], echo_of))
        return [continuations(r.text, r.choices, [next(echoes) for _ in r.choices]) for r in requests]

    def echoes(self, texts: Sequence[str], read: Callable[[Mapping[str, Any], Any], T]) -> list[T]:
        """Each text's own tokens, as `read` parses them from the answer."""
        # One token is generated, because some servers refuse to generate none; it is ignored.
        fields = {"temperature": 0, "max_tokens": 1, "echo": True, "logprobs": 1}
        return self.post([("/completions", {"prompt": text, **fields}) for text in texts], read)

    def probe(self) -> None:
        """Check once that the server returns a prompt's own log-probabilities. Raises BadInput with what it returns."""
        if "flaw" not in vars(self):
            self.flaw = self.found_flaw() and self.found_flaw()  # a second try, in case the first was a passing fault
        if self.flaw:
            raise BadInput(
                f"{self.server.url} cannot score log-likelihoods: asked for `echo` and `logprobs` of a known text, "
                f"{self.flaw}; pass --first-token, or {INSTEAD}"
            )

    def found_flaw(self) -> str:
        """The fault in the server's echo of a known text; empty if there is none."""
        likely, absurd = self.echoes([KNOWN + LIKELY, KNOWN + ABSURD], echo_or_flaw)
        return flaw_of(likely, absurd)

    def first_tokens(self, requests: Sequence[Rendered]) -> list[list[float]]:
        """Log-likelihoods of choices that are single tokens, from the alternatives to the first token."""
        common = {"temperature": 0, "max_tokens": 1}
        wanted = {True: {"logprobs": True, "top_logprobs": TOP}, False: {"logprobs": TOP}}
        first_tokens = self.ask([(request, common | wanted[request.chat]) for request in requests], alternatives)
        return [[self.among(first, c) for c in r.choices] for r, first in zip(requests, first_tokens, strict=True)]

    def among(self, first: Mapping[str, float], choice: str) -> float:
        """The log-probability of a choice among the most likely first tokens. Raises BadInput if it is not there."""
        if choice not in first:
            shown = f"among its {len(first)} likeliest first ones" if first else "for it shows no alternatives at all"
            raise BadInput(
                f"{self.server.url} does not show {choice!r} as a single token {shown}, so that its log-likelihood is "
                f"not known; {INSTEAD}"
            )
        return first[choice]


def how(request: Rendered, sampling: Sampling) -> dict[str, Any]:
    """The fields of a request for text."""
    stop = {"stop": list(request.stop)} if request.stop else {}
    seed = sampling.seed % SEEDS
    return {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens, "seed": seed, **stop}
