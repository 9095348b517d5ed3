"""What contract tests share: few sequences in reports, and pictures laid out once, for neither is looked at."""

from __future__ import annotations

import pytest

from hopscope.drawing import style


@pytest.fixture(scope="module", autouse=True)
def brief_reports():
    """The final numbers of a run on 256 sequences instead of 4,096."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopscope.training.loop.REPORT_SIZE", 256)
        yield


@pytest.fixture(scope="module", autouse=True)
def laid_out_once():
    """A picture's PNG is drawn where its SVG was, in few dots; by itself each is laid out for its own letters."""
    whole = style.rendered

    def rendered(figure, kind):
        if kind == "svg":
            return whole(figure, kind)
        engine = figure.get_layout_engine()
        figure.set_layout_engine("none")
        try:
            return whole(figure, kind)
        finally:
            figure.set_layout_engine(engine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopscope.drawing.style.rendered", rendered)
        patch.setitem(style.STYLE, "savefig.dpi", 50)
        yield
