"""The request fields that a server accepts. Fields that it refuses are not sent again.

Hosted models refuse `seed`, `temperature`, `stop` or `max_tokens`, with messages of their own (ChatterUI #227, lm-eval
#2441). A refusal that names the field is recognised; for others there is `--omit`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hopscope.core.settings import BadInput

log = logging.getLogger("hopscope")

#: Fields that can be left out, and the consequence.
FIELDS = {
    "temperature": "it samples by its own default",
    "max_tokens": "it ends answers by its own limit",
    "seed": "sampled answers differ from run to run",
    "stop": "texts are cut here instead",
}
#: Refusals because of the length of a request, whichever fields they name.
TOO_LONG = re.compile(r"context length|context window|too (large|long)|exceed", re.IGNORECASE)


class Fields:
    """The fields that a server accepts, as far as known.

    Args:
        server: its name in warnings.
        omit: fields that are left out from the start. Raises BadInput for one that must be sent.

    Attributes:
        left_out: names of fields that are not sent.
        limit: the server's name for the token limit.
    """

    def __init__(self, server: str, omit: Sequence[str] = ()):
        if alien := sorted(set(omit) - FIELDS.keys()):
            raise BadInput(f"fields that can be left out are {', '.join(FIELDS)}; got {alien[0]!r}")
        self.server, self.left_out, self.limit = server, list(omit), "max_tokens"

    def taken(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The fields to send, under the names that the server uses."""
        names = {"max_tokens": self.limit}
        return {names.get(name, name): value for name, value in wanted.items() if name not in self.left_out}

    def learn(self, said: str) -> bool:
        """Whether an error message names a field that was sent; that field is then left out or renamed from now on."""
        if TOO_LONG.search(said):
            return False
        if self.limit == "max_tokens" and "max_completion_tokens" in said:
            self.limit = "max_completion_tokens"  # what hosted reasoning models call it
            return True
        # A message that names the token limit usually says that the limit is too low or too high.
        sent = [name for name in FIELDS if name not in ("max_tokens", *self.left_out)]
        named = re.search(rf"\b({'|'.join(sent)})\b", said) if sent else None
        if named is not None:
            self.left_out.append(named[1])
            log.warning("%s takes no %s, which is left out from now on: %s", self.server, named[1], FIELDS[named[1]])
        return named is not None
