"""Lines of code, counted by hand."""

from __future__ import annotations

from tools.size import LABORATORY, STUDIES, lines_of_code, main, sizes

SOURCE = '''"""A module.

It says what it is.
"""

import math  # for its root

# A comment alone.


class One:
    """A class."""

    #: What it holds.
    value = """a text
    of two lines, which is no docstring"""

    def root(self) -> float:
        """A method; its docstring is prose."""
        return math.sqrt(
            2.0,

            # within a call
        )
'''


def test_a_file_counted_by_hand():
    """import, class, value (two lines), def, return, 2.0 and the closing parenthesis."""
    assert lines_of_code(SOURCE) == 8
    assert lines_of_code('"""Nothing but words."""\n') == lines_of_code("") == 0


def test_rooms_are_folders_whose_tests_are_not_counted(tmp_path, capsys, monkeypatch):
    for place in ("room/inner", "room/tests"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "loose.py").write_text("x = 1\n")
    for place in ("room", "room/inner", "room/tests"):
        (tmp_path / place / "file.py").write_text("x = 1\ny = 2\n")
    assert sizes(tmp_path) == {".": 1, "room": 4}
    assert LABORATORY.is_dir() and STUDIES.is_dir()
    monkeypatch.setattr("tools.size.LABORATORY", tmp_path)
    monkeypatch.setattr("tools.size.STUDIES", tmp_path / "room")
    assert main([]) == 0
    assert dict(line.split() for line in capsys.readouterr().out.splitlines()) == {"laboratory": "5", "studies": "4"}
    assert main(["--rooms"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [["laboratory", "5"], ["room", "4"], [".", "1"], ["studies", "4"], [".", "2"], ["inner", "2"]]
