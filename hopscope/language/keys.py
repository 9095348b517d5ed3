"""A server's API key: sent in a header, and redacted from all that the server returns, because some echo it.

Every run of twelve or more characters of the key is redacted. A shorter key is hardly a secret (local servers accept
any, such as `x` or `none`), and redacting it would change answers; so it is only redacted from error messages.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hopscope.core.settings import BadInput

#: A run of so many characters of the key is not a coincidence.
TELLING = 12


class Key:
    """A key, or none.

    Raises:
        BadInput: no header can carry it; the message does not show it.
    """

    def __init__(self, key: str | None):
        self._key = usable((key or "").strip())
        quoted = json.dumps(self._key)[1:-1]
        written = (self._key, quoted, self._key.replace("/", "\\/"), quoted.replace("/", "\\/"))
        self._pieces = {text[i : i + TELLING] for text in written for i in range(len(text) - TELLING + 1)}
        self._word = re.compile(rf"(?<!\w){re.escape(self._key)}(?!\w)")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def hidden(self, said: Any) -> Any:
        """A text or a value of JSON without the key; names of fields stay, for they are read by name."""
        if isinstance(said, dict):
            return {name: self.hidden(value) for name, value in said.items()}
        if isinstance(said, list):
            return [self.hidden(value) for value in said]
        return self.hidden_in(said) if isinstance(said, str) and self._pieces else said

    def hidden_in(self, text: str) -> str:
        """A text with `(key)` for every run of the key's characters."""
        shown: list[str] = []
        at = end = 0  # what is before `at` was shown or hidden; a run reaches up to `end`
        for i in range(len(text) - TELLING + 1):
            if text[i : i + TELLING] in self._pieces:
                if i > end or not shown:
                    shown.append(text[at:i])
                at = end = i + TELLING
        return "(key)".join([*shown, text[at:]])

    def hidden_in_words(self, text: str) -> str:
        """An error message without the key; here a short key is redacted, too, where it is a whole word."""
        text = self.hidden(text)
        return self._word.sub("(key)", text) if self._key else text


def usable(key: str) -> str:
    """A key that a header can carry. Raises BadInput, which does not show it."""
    if not all("!" <= sign <= "~" for sign in key):
        raise BadInput(
            "the key in HOPSCOPE_API_KEY (or OPENAI_API_KEY) holds a space, a line break or a letter outside ASCII, "
            "which no header can carry; set it anew"
        )
    return key
