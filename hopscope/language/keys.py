"""A key for a server: sent in a header, and kept out of whatever the server says, for some send it back.

What is hidden is a run of twelve or more characters of the key, wherever it stands. A shorter key is hardly a secret
(local servers take any, such as `x` or `none`), and cutting it out of answers would change them; so answers keep it,
and only the sentences of errors go without it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hopscope.core.settings import BadInput

#: So many characters in a row are no coincidence.
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
        """What a request carries."""
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
        """The same of a server's sentence, which goes without a short key too, where that is a word."""
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
