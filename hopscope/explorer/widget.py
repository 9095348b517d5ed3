"""The explorer as a widget (anywidget): the same page, which asks for the bundle by messages.

The page asks, and Python answers, as the server does: `{kind: manifest}`, `{kind: block, name}` and `{kind: compute,
query}`, each with an `id` that the answer repeats. A thread builds; it touches no widget, for not every notebook bears
that: the page asks for the manifest again as long as it says that more is to come.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from hopscope.core.settings import BadInput
from hopscope.explorer.building import Builder
from hopscope.explorer.page import static


class Explorer(anywidget.AnyWidget):
    """The explorer's page in a cell; made by `hopscope.explore`.

    Attributes:
        state: what is chosen, as it stands behind `#` in the page's address.
        height: in pixels of CSS.
    """

    state = traitlets.Unicode("").tag(sync=True)
    height = traitlets.Int(720).tag(sync=True)

    _esm = static("widget.js")
    _css = static("page.css")

    def __init__(self, builder: Builder, height: int):
        self.builder = builder
        super().__init__(height=height)
        self.on_msg(lambda _, content, buffers: self.heard(content))
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        """Build; a fault is told in the page, for nobody looks at a thread."""
        try:
            self.builder.follow()
        except Exception as error:
            traceback.print_exc()
            self.builder.publish(f"stopped by a fault of hopscope's: {error}", complete=True)

    def heard(self, content: Mapping[str, Any]) -> None:
        """Answer what the page asks."""
        about = {"id": content.get("id"), "kind": content.get("kind")}
        try:
            told, buffers = self.given(content)
        except BadInput as error:
            told, buffers = {"error": str(error)}, []
        self.send({**about, **told}, buffers=buffers)

    def given(self, content: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a message, with its bytes. Raises BadInput."""
        kind = content.get("kind")
        if kind == "manifest":
            return {"text": self.builder.text}, []
        if kind == "block":
            block = self.builder.bundle.blocks.get(str(content.get("name")))
            if block is None:
                raise BadInput("there is no such block")
            return {}, [block.data]
        if kind == "compute":
            return {"answer": self.builder.answer(str(content.get("query")))}, []
        raise BadInput(f"the page asks for {kind!r}, which this version of hopscope does not know")

    def close(self) -> None:
        """End the work, too."""
        self.builder.stop()
        super().close()
