"""A server's API key: sent in a header, and redacted from everything that the server returns, because some echo it.

Every run of twelve or more characters of the key is redacted. A shorter key is hardly a secret, because local servers
accept any, such as `x` or `none`. Redacting it would change answers, so it is only redacted from error messages.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hopscope.core.settings import BadInput

#: The length of a run of the key's characters that is no coincidence.
TELLING = 12


class Key:
    """An API key, or none.

    Raises:
        BadInput: a header cannot carry it; the message does not show the key.
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
        """A text or a JSON value without the key; names of fields are unchanged, because they are looked up."""
        if isinstance(said, dict):
            return {name: self.hidden(value) for name, value in said.items()}
        if isinstance(said, list):
            return [self.hidden(value) for value in said]
        return self.hidden_in(said) if isinstance(said, str) and self._pieces else said

    def hidden_in(self, text: str) -> str:
        """A text with `(key)` for every run of the key's characters."""
        shown: list[str] = []
        at = end = 0  # everything before `at` is done; the last run ends at `end`
        for i in range(len(text) - TELLING + 1):
            if text[i : i + TELLING] in self._pieces:
                if i > end or not shown:
                    shown.append(text[at:i])
                at = end = i + TELLING
        return "(key)".join([*shown, text[at:]])

    def hidden_in_words(self, text: str) -> str:
        """An error message without the key; a short key is also redacted here, if it is a whole word."""
        text = self.hidden(text)
        return self._word.sub("(key)", text) if self._key else text


def usable(key: str) -> str:
    """The key, if a header can carry it. Raises BadInput otherwise, without showing it."""
    if not all("!" <= sign <= "~" for sign in key):
        raise BadInput(
            "the key in HOPSCOPE_API_KEY (or OPENAI_API_KEY) holds a space, a line break or a letter outside ASCII, "
            "which no header can carry; set it anew"
        )
    return key
