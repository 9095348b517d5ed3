"""The explorer as a widget (anywidget): the same page, which requests the bundle by messages.

Requests are `{kind: manifest}`, `{kind: block, name}` and `{kind: compute, query}`, each with an `id` that the answer
repeats. A thread builds the bundle. It does not touch the widget, because not every notebook allows that; instead the
page requests the manifest again until it is complete.
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
        state: what the user has chosen, in the form of the text after `#` in the page's address.
        height: in CSS pixels.
    """

    state = traitlets.Unicode("").tag(sync=True)
    height = traitlets.Int(720).tag(sync=True)

    _esm = static("widget.js")
    _css = static("page.css")

    def __init__(self, builder: Builder, height: int):
        self.builder = builder
        super().__init__(height=height)
        self.on_msg(lambda _, content, buffers: self.receive(content))
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        """Build the bundle; an error is shown in the page, because errors of a thread are not seen."""
        try:
            self.builder.follow()
        except Exception as error:
            traceback.print_exc()
            self.builder.publish(f"stopped by a fault of hopscope's: {error}", complete=True)

    def receive(self, content: Mapping[str, Any]) -> None:
        """Answer a request of the page."""
        about = {"id": content.get("id"), "kind": content.get("kind")}
        try:
            answer, buffers = self.given(content)
        except BadInput as error:
            answer, buffers = {"error": str(error)}, []
        self.send({**about, **answer}, buffers=buffers)

    def given(self, content: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a request, and its buffers. Raises BadInput."""
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
        """Close the widget and stop building."""
        self.builder.stop()
        super().close()
