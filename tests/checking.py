"""How types and shapes are checked while tests run: by beartype, for which a whole number may stand for a float."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
