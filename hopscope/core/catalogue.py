"""What stands in a folder is what the laboratory offers: variants are found by walking, never registered.

A variant's name is its file's name. `tasks/retrieval.py` is the task `retrieval` on the command line, in
test ids and in tables; no list, decorator or `__init__` has to be edited to add one. The idea is that of
scikit-learn's `all_estimators`. Plug-ins have folders of the same names (`hopscope.core.outside`): our own package of
studies, a package that somebody installed, a folder of one's own. So has each study in them, for what only it needs:
`hopscope_studies/birth/tasks/trigger_bigrams.py` is a task like any other.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hopscope.core import outside
from hopscope.core.settings import BadInput, Settings, Variant

# Files that hold what a folder's variants share are called base…; they are no variants themselves.

#: Variants that were renamed after something had been trained with them, by folder: `{name: name on disk}`. Identities
#: and config.json keep the name on disk; every command takes either.
RENAMED: dict[str, dict[str, str]] = {}


def on_disk(folder: str, name: str) -> str:
    """The name under which runs know a variant: its first one."""
    return RENAMED.get(folder, {}).get(name, name)


def current(folder: str, name: str) -> str:
    """The inverse of `on_disk`: what a variant is called today; a name that was never changed is itself."""
    return next((new for new, old in RENAMED.get(folder, {}).items() if old == name), name)


#: Folders of the library that hold a frame alone; what they frame stands in studies.
FRAMES = ("experiments",)
#: What nobody adds to from outside: a stranger's file must not change what a command means.
OURS_ALONE = ("cli.commands", "cli.lm")


class Unknown(BadInput):
    """A name that no variant of a folder has."""


@dataclass(frozen=True)
class Root:
    """Where folders of variants are looked for: a package, and the folder that holds it."""

    package: str
    path: Path
    outside: bool = False

    def variants(self, folder: str) -> list[str]:
        """Names of the variants in one of its folders, in no order. Nothing is imported."""
        found = pkgutil.iter_modules([str(self.folder(folder))])
        return [file.name for file in found if not file.ispkg and not file.name.startswith(("base", "_"))]

    def folder(self, folder: str) -> Path:
        """One of its folders on disk; dots separate nested ones."""
        return self.path.joinpath(*folder.split("."))

    def place(self, folder: str) -> str:
        """One of its folders, for people."""
        return str(self.folder(folder)) if self.outside else f"{self.package}.{folder}"

    def studies(self) -> list[Root]:
        """Its studies, which have folders of their own: what is in `studies/`; in a package what has `experiments/`.

        A folder of somebody's own may hold anything else beside.
        """
        found = {*self.path.glob("studies/*/")}
        if not self.package.startswith(outside.PRIVATE):
            found |= {path.parent for path in self.path.glob("*/experiments/")}
        named = [path for path in sorted(found) if path.name.isidentifier() and not path.name.startswith("_")]
        inner = [".".join(path.relative_to(self.path).parts) for path in named]
        return [Root(f"{self.package}.{name}", path, self.outside) for name, path in zip(inner, named, strict=True)]


LIBRARY = Root("hopscope", Path(__file__).parents[1])


def roots(folder: str) -> list[Root]:
    """The library, unless it only frames such variants; then plug-ins, and every study of each."""
    library = [] if folder in FRAMES else [LIBRARY]
    brought = ours() if folder in OURS_ALONE else plugins()
    return [*library, *(root for one in brought for root in (one, *one.studies()))]


def plugins() -> list[Root]:
    """Ours, then what comes from outside."""
    return [*ours(), *(Root(*place, outside=True) for place in outside.places().items())]


def ours() -> list[Root]:
    """The plug-ins that are installed with the library: its studies."""
    return [Root(*place) for place in outside.ours().items()]


def studies() -> list[Root]:
    """The studies of all plug-ins."""
    return [study for one in plugins() for study in one.studies()]


def homes(folder: str) -> dict[str, Root]:
    """Every variant's root, by its name. Raises BadInput for a name that stands in two of them."""
    found: dict[str, Root] = {}
    for root in roots(folder):
        for name in root.variants(folder):
            if name in found:
                both = f"{found[name].place(folder)} and in {root.place(folder)}"
                raise BadInput(f"there is a {name!r} both in {both}; rename one of the two files")
            found[name] = root
    return found


def names(folder: str) -> list[str]:
    """Names of the variants in `<folder>` of every root (dots separate nested folders), sorted."""
    return sorted(homes(folder))


#: Roots of variants that were found, by folder, name and all that is searched: to walk takes a thousand times as long.
_FOUND: dict[tuple[Any, ...], Root] = {}


def home(folder: str, name: str) -> Root:
    """A variant's root. One that was found is looked for anew only when its file is gone, or other folders are brought.

    Raises BadInput, naming the nearest match, if there is none.
    """
    searched = (LIBRARY, *outside.ours().items(), *outside.places().items())
    root = _FOUND.get((folder, name, searched))
    if root is None or not (root.folder(folder) / f"{name}.py").is_file():
        known = homes(folder)
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(sorted(known))}"
            own = "" if close or outside.places() else " (one of your own: name its folder by --with DIR)"
            raise Unknown(f"there is no {name!r} in {folder}; {hint}{own}")
        _FOUND.update({(folder, each, searched): where for each, where in known.items()})  # one walk finds them all
        root = known[name]
    return root


def module(folder: str, name: str) -> ModuleType:
    """The variant's module. Raises BadInput, naming the nearest match, if there is none."""
    name = current(folder, name)
    package = home(folder, name).package
    with outside.blamed():
        return importlib.import_module(f"{package}.{folder}.{name}")


def find(folder: str, name: str) -> Any:
    """The variant itself: the one concrete class that its file defines, or else the function named like the file."""
    name = current(folder, name)
    source = module(folder, name)
    own = [value for value in vars(source).values() if inspect.isclass(value) and value.__module__ == source.__name__]
    derived = [value for value in own if derives(value, folder)]
    classes = [value for value in derived if not inspect.isabstract(value)]
    if any(issubclass(c, Settings) for c in classes):  # a model's module stands beside the settings that build it
        classes = [c for c in classes if issubclass(c, Settings)]
    if len(classes) == 1:
        return classes[0]
    if inspect.isfunction(function := getattr(source, name, None)):
        return function
    for value in derived if not classes else ():
        lacks = ", ".join(sorted(getattr(value, "__abstractmethods__", ())))
        raise BadInput(f"{source.__file__} is unfinished: {value.__name__} lacks {lacks}")
    raise not_whole(
        source,
        f"must define exactly one concrete class whose base is in {folder}/base.py, or a function {name}(); found "
        f"{' and '.join(c.__name__ for c in classes) or 'neither'}",
    )


def hashes(folder: str, name: str) -> dict[str, str]:
    """The sha256 of a variant's file, and of those that it imports, where it comes from outside; nothing of ours."""
    home = homes(folder).get(name)
    return outside.hashes([module(folder, name).__name__]) if home and home.outside else {}


def not_whole(source: ModuleType, lacks: str) -> Exception:
    """What to raise where a variant's file lacks something: BadInput if it is somebody's own, TypeError if ours."""
    if outside.is_outside(source.__name__):
        return BadInput(f"{source.__file__} {lacks}")
    return TypeError(f"{source.__name__} {lacks}")


LONGEST = 1000  # characters of a choice


def chosen(folder: str, text: str) -> Any:
    """The variant that a setting's text chooses: `softmax`, or `rotary(base=100)` with settings of its own.

    Values are plain numbers, yes or no (`True`, `False`), or words, in quotes where they are more than letters.
    Raises BadInput for a variant or a setting that is not there, and for a value out of range.
    """
    found = re.fullmatch(r"\s*(\w+)\s*(\(.*\))?\s*", text, re.DOTALL)
    if not found or len(text) > LONGEST:
        find(folder, text)  # raises, naming the nearest match
        raise BadInput(f"a variant must be written such as rotary(base=100); got {text[:80]!r}")
    kind: type[Variant] = find(folder, found[1])  # which knows names of old
    return kind.from_dict(arguments(text, found[2]) if found[2] else {})


def arguments(text: str, behind: str) -> dict[str, Any]:
    """What stands in the parentheses behind a variant's name. Raises BadInput."""
    complaint = BadInput(f"a variant's settings must be written such as rotary(base=100); got {text!r}")
    try:
        call = ast.parse(f"_{behind}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise complaint
        given = {str(word.arg): literal(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise complaint from None
    if "None" in given:  # `**something`
        raise complaint
    if len(given) < len(call.keywords):
        raise BadInput(f"a variant's setting must be given once; got {text!r}")
    return given


def literal(value: ast.expr) -> Any:
    """A number, a truth value or a word. Raises ValueError for anything else."""
    return value.id if isinstance(value, ast.Name) else ast.literal_eval(value)


def derives(value: type, folder: str) -> bool:
    """Whether a class derives, at any depth, from one in the library's `<folder>/base.py`."""
    base = f"{LIBRARY.package}.{folder}.base"
    return any(parent.__module__ == base for parent in value.__mro__[1:])


def parsed(folder: str, name: str) -> ast.Module:
    """A variant's file, read but not run: what lists variants must not pay for importing them all."""
    file = home(folder, name).folder(folder) / f"{name}.py"
    with outside.blamed():
        return ast.parse(file.read_bytes(), str(file))


def summary(folder: str, name: str) -> str:
    """First sentence of the variant's file."""
    return (ast.get_docstring(parsed(folder, name)) or "").split("\n")[0]
