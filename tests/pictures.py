"""Pictures drawn once, for tests that ask whether there is one and not what it shows."""

from __future__ import annotations

import pytest

from hopscope.drawing import style


@pytest.fixture(scope="module", autouse=True)
def drawn_once():
    """A run's picture is drawn once, where its letters happen to fall, and stands for its PNG, too.

    That it can be drawn is what is asked; formats and layout are those of all pictures (tests/drawing).
    """
    whole = style.rendered

    def rendered(figure, kind):
        if not hasattr(figure, "drawn"):
            figure.set_layout_engine("none")
            figure.drawn = whole(figure, "svg")
        return figure.drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopscope.drawing.style.rendered", rendered)
        yield
