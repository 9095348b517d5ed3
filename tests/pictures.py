"""Pictures drawn and not written, for tests that ask whether there is one and not what it shows."""

from __future__ import annotations

import matplotlib
import pytest
from matplotlib.text import Text

from hopscope.drawing import style


@pytest.fixture(scope="module", autouse=True)
def drawn_once():
    """A picture is drawn once, where its letters happen to fall; empty axes and its words are written in its place.

    That it can be drawn is what is asked; formats and layout are those of all pictures (tests/drawing).
    """
    axes = style.picture(4, 3)
    axes.add_subplot()
    in_its_place = style.rendered(axes, "svg")

    def rendered(figure, kind):
        if not hasattr(figure, "drawn"):
            figure.set_layout_engine("none")
            with matplotlib.rc_context(style.STYLE):
                figure.draw_without_rendering()
            words = "\n".join(text.get_text() for text in figure.findobj(Text))
            figure.drawn = in_its_place + words.encode()
        return figure.drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopscope.drawing.style.rendered", rendered)
        yield
