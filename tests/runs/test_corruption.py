"""Whatever is altered on disk is found before it is used, and named."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import shutil
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

from hopscope import Architecture, BadInput, Config, Run, load, train
from hopscope.circuits.discovery import Discovery
from hopscope.cli import main
from hopscope.core.storage import MANIFEST, Damaged, enlist, read_manifest, write_folder
from hopscope.drawing.circuit_report import investigate
from hopscope.drawing.run_pictures import schedule_of
from hopscope.emergence.record import circuit_paths
from hopscope.experiments.results import all_claims, redraw
from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401
from tests.small_runs import config, fingerprint, trained

PACKAGE = Path(__file__).parents[2] / "hopscope"
STUDY = PACKAGE.with_name("hopscope_studies") / "stacked_heads" / "results"


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A finished run, big enough to have pages of 4 KiB to lose."""
    base = config(checkpoints="6")
    wide = Config(base.task, Architecture(n_layers=1, d_model=32), base.training)
    return train(wide, tmp_path_factory.mktemp("original") / "run", threads=1).path


@pytest.fixture
def run(original, tmp_path) -> Run:
    """A copy to damage."""
    return load(shutil.copytree(original, tmp_path / "run"))


def names_it(path: Path, use: Callable[[], object]) -> bool:
    """Whether this use is refused with one sentence that begins with the altered file."""
    try:
        use()
    except Damaged as damage:
        return str(damage).startswith(f"{path} ") and "\n" not in str(damage)
    return False


def found(run: Run, path: Path) -> bool:
    """Whether everything that reads this file of the newest checkpoint complains of it."""
    to_resume, to_look = lambda: run.checkpoint(run.step), lambda: run.at(run.step)
    uses = [to_resume] if path.name == "optimizer.safetensors" else [to_resume, to_look]
    return all(names_it(path, use) for use in uses)


def damage_each(run: Run, how_often: int, alter: Callable[[bytes, random.Random], bytes]) -> int:
    """Alter a random file of the newest checkpoint, look, mend it; returns how many alterations were found."""
    files = sorted(run.folder(run.step).iterdir())
    assert {f.name for f in files} == {"model.safetensors", "optimizer.safetensors", "manifest.json"}
    chance = random.Random(0)
    seen = 0
    for _ in range(how_often):
        path = chance.choice(files)
        before = path.read_bytes()
        after = alter(before, chance)
        assert after != before
        path.write_bytes(after)
        seen += found(run, path)
        path.write_bytes(before)
    run.checkpoint(run.step)  # mended, it is whole again
    run.at(run.step)
    return seen


def flip(data: bytes, chance: random.Random) -> bytes:
    place, bit = chance.randrange(len(data)), chance.randrange(8)
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def zero_a_page(data: bytes, chance: random.Random) -> bytes:
    pages = [p for p in range(0, len(data), 4096) if any(data[p : p + 4096])]
    page = chance.choice(pages)
    return data[:page] + bytes(len(data[page : page + 4096])) + data[page + 4096 :]


def test_a_thousand_flipped_bits(run):
    assert damage_each(run, 1000, flip) == 1000


def test_a_hundred_truncations(run):
    assert damage_each(run, 100, cut) == 100


def test_a_hundred_zeroed_pages(run):
    assert damage_each(run, 100, zero_a_page) == 100


def test_appended_bytes(run):
    assert damage_each(run, 30, lambda data, chance: data + b"\0") == 30


FILES = ("model.safetensors", "optimizer.safetensors", MANIFEST)


@pytest.fixture(scope="module")
def sibling(original, tmp_path_factory) -> Run:
    """A run like the original in all but its seed."""
    theirs = load(original).config
    other = Config(theirs.task, theirs.model, theirs.training.but(seed_init=1, seed_data=1))
    return train(other, tmp_path_factory.mktemp("sibling") / "run", threads=1)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("whence", ["step", "run"])
def test_a_file_of_another_step_or_run(run, sibling, name, whence):
    """One file alone, or all but one: the hashes do not fit; the manifest is believed."""
    source = run.folder(6) if whence == "step" else sibling.folder(12)
    shutil.copy(source / name, run.folder(12) / name)
    suspect = "model.safetensors" if name == MANIFEST else name
    with pytest.raises(Damaged, match=rf"step_00000012.({re.escape(suspect)}|{MANIFEST}) "):
        run.checkpoint(12)
    if name != "optimizer.safetensors":
        with pytest.raises(Damaged, match="step_00000012"):
            run.at(12)


@pytest.mark.parametrize("whence", ["step", "run"])
def test_a_whole_checkpoint_of_another_step_or_run(run, sibling, whence):
    """Every hash fits, the tensors too, but it is not what was written here."""
    source = run.folder(6) if whence == "step" else sibling.folder(12)
    shutil.rmtree(run.folder(12))
    shutil.copytree(source, run.folder(12))
    for use in (run.checkpoint, run.at):
        with pytest.raises(Damaged, match=r"step_00000012.manifest\.json is of another run or step"):
            use(12)
    with pytest.warns(UserWarning, match="going on from step 6"):
        assert run.newest().step == 6


def test_two_files_that_changed_places(run):
    model, optimizer = (run.folder(12) / name for name in FILES[:2])
    weights = model.read_bytes()
    model.write_bytes(optimizer.read_bytes())
    optimizer.write_bytes(weights)
    assert found(run, model)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(run, name):
    (run.folder(12) / name).unlink()
    assert found(run, run.folder(12) / name)


def test_an_empty_checkpoint_folder(run):
    for file in run.folder(12).iterdir():
        file.unlink()
    assert found(run, run.folder(12) / MANIFEST)


def test_a_lost_manifest_entry_is_no_way_round_the_hash(run):
    """A manifest whose own hash fits, but which does not vouch for the weights."""
    about = {key: value for key, value in read_manifest(run.folder(12)).items() if key != "files"}
    files = {name: (run.folder(12) / name).read_bytes() for name in FILES[:2]}
    weights = files.pop("model.safetensors")
    write_folder(run.folder(12), files, about)
    (run.folder(12) / "model.safetensors").write_bytes(weights)
    assert found(run, run.folder(12) / "model.safetensors")


def unfinish(run: Run) -> None:
    for name in ("DONE", "report.json"):
        (run.path / name).unlink()


def test_training_goes_on_from_the_checkpoint_before(tmp_path):
    """The newest is damaged: a warning names it, step 8 is taken, and the end is bit for bit the same."""
    run = trained(tmp_path / "run")
    before = fingerprint(run)
    unfinish(run)
    path = run.folder(12) / "model.safetensors"
    path.write_bytes(flip(path.read_bytes(), random.Random(1)))
    with pytest.warns(UserWarning, match=r"step_00000012.model\.safetensors is altered.*going on from step 8"):
        again = trained(tmp_path / "run")
    assert fingerprint(again) == before


def test_nothing_whole_is_left(tmp_path):
    run = trained(tmp_path / "run")
    unfinish(run)
    for step in run.steps:
        (run.folder(step) / "model.safetensors").write_bytes(b"")
    with pytest.raises(Damaged, match=r"no checkpoint in .* is whole: delete the folder to start anew"):
        trained(tmp_path / "run")


def test_an_altered_configuration(run):
    path = run.path / "config.json"
    stored = json.loads(path.read_text())
    stored["training"]["lr"] = 0.5
    path.write_text(json.dumps(stored))
    with pytest.raises(Damaged, match=r"config\.json is altered"):
        load(run.path)
    path.write_text("{")
    with pytest.raises(Damaged, match="it is not JSON"):
        load(run.path)
    path.write_text('{"format": 99}')
    with pytest.raises(BadInput, match="another format"):
        load(run.path)


@pytest.mark.parametrize("part", ["task", "model", "training"])
def test_every_altered_setting_is_found(original, run, part):
    """Whatever is changed in config.json by hand, nothing is trained or loaded under it."""
    path = run.path / "config.json"
    whole = json.loads(path.read_text())
    unfinish(run)
    for name, value in whole[part].items():
        changed = (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else "none"
        path.write_text(json.dumps({**whole, part: {**whole[part], name: changed}}))
        with pytest.raises(BadInput) as refused:
            load(run.path)
        assert "\n" not in str(refused.value)
        with pytest.raises(BadInput):
            train(load(original).config, run.path, threads=1)


def test_a_flipped_bit_in_the_configuration(run):
    """Every bit of config.json: refused, or (blanks, e.g.) of no consequence."""
    path, config = run.path / "config.json", run.config
    whole = path.read_bytes()
    chance = random.Random(0)
    for _ in range(300):
        path.write_bytes(flip(whole, chance))
        try:
            found = load(run.path).config
        except BadInput:
            continue
        assert found == config


def test_rows_that_are_altered(tmp_path):
    """A digit of metrics.jsonl changed to another is still JSON; the checkpoint knows better."""
    run = trained(tmp_path / "run")
    unfinish(run)
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"step": 3', b'"step": 9'))
    with pytest.raises(Damaged, match=r"metrics\.jsonl is altered"):
        trained(tmp_path / "run")


def test_rows_that_are_missing(tmp_path):
    """A metrics.jsonl shorter than its checkpoint saw cannot be trusted."""
    run = trained(tmp_path / "run")
    unfinish(run)
    (run.path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(Damaged, match=r"metrics\.jsonl is cut short"):
        trained(tmp_path / "run")


@pytest.mark.parametrize("name", ["metrics.jsonl", "sessions.jsonl"])
@pytest.mark.parametrize("junk", [b"{not json", b"\xff\xfe", b"\0"], ids=["words", "bytes", "zeros"])
def test_lines_that_are_no_json(tmp_path, name, junk):
    run = trained(tmp_path / "run")
    path = run.path / name
    path.write_bytes(junk + path.read_bytes()[len(junk) :])
    assert names_it(path, run.summary) or names_it(path, lambda: run.rows)
    unfinish(run)
    assert names_it(path, lambda: trained(tmp_path / "run"))


# Finished folders -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run, trained, with all that is found out about one; and one that was built, with its truth."""
    folder = tmp_path_factory.mktemp("finished")
    run = trained(folder / "run", checkpoints="4")
    investigate(run, run.path, Discovery(discovery=8, selection=8, report=16, alternatives=1))
    assert main(["emerge", str(run.path), "--path", "L0H0 query->value[1]", "--n", "8"]) == 0
    assert main(["draw", str(run.path)]) == 0
    (run.path / "pictures" / "circuit.svg").write_text("<svg>\n1\n</svg>\n")  # its circuit is none to be drawn
    enlist(run.path, ["pictures/circuit.svg"])
    assert main(["build", "1", "--out", str(folder / "built")]) == 0
    return folder


def page_of(path: Path) -> None:
    """The report with an experiment's results."""
    from hopscope.cli.commands.explore import export_runs

    export_runs((), path.parent / "page.html", "tour", [path.parent], opens="claims")


#: What reads each file of a run; of others nothing of ours does.
READERS: dict[str, Callable[[Path], object]] = {
    "config.json": load,
    "metrics.jsonl": lambda path: Run(path).metrics,
    "sessions.jsonl": lambda path: Run(path).summary(),
    "report.json": lambda path: Run(path).report,
    "manifest.json": lambda path: Run(path).rows,
    "truth.json": lambda path: schedule_of(Run(path)),
    "circuit.json": lambda path: circuit_paths(Run(path), print),
    "checkpoints/step_00000012/manifest.json": lambda path: Run(path).model,
    "checkpoints/step_00000012/model.safetensors": lambda path: Run(path).model,
    "checkpoints/step_00000012/optimizer.safetensors": lambda path: Run(path).checkpoint(12),
    "checkpoints/step_00000004/model.safetensors": lambda path: Run(path).at(4),
}


def cut_lines(data: bytes) -> bytes:
    """Without the last line; of a single one without its second half."""
    whole = data.splitlines(keepends=True)
    return b"".join(whole[:-1]) if len(whole) > 1 else data[: len(data) // 2]


def change_a_digit(data: bytes) -> bytes:
    """The last digit of the last number one up, so that it parses as before; where there is none, the last byte."""
    place = max((match.start() for match in re.finditer(rb"\d(?![\d.])", data)), default=len(data) - 1)
    return data[:place] + (b"1" if data[place : place + 1] == b"0" else b"0") + data[place + 1 :]


ALTERATIONS = {"cut-lines": cut_lines, "a-digit": change_a_digit}


def files_of(folder: Path) -> list[str]:
    """All files of a finished folder, but for DONE, which is empty, and locks."""
    found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return [str(path) for path in found if path.name[0] != "." and path.name != "DONE"]


def assert_found(capsys, folder: Path, name: str, alter: Callable[[bytes], bytes], read: Callable | None) -> None:
    """`verify` names an altered file in a line of its own and exits with 2, and what reads the file refuses it."""
    path = folder / name
    before = path.read_bytes()
    path.write_bytes(alter(before))
    assert path.read_bytes() != before
    assert main(["verify", str(folder)]) == 2, name
    said = capsys.readouterr().out
    assert re.search(rf"^  {re.escape(str(path))} .*; .*$", said, re.M), said
    if read is not None:
        with pytest.raises(BadInput) as refused:
            read(folder)
        assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    path.write_bytes(before)


@pytest.mark.parametrize("alteration", ALTERATIONS)
@pytest.mark.parametrize("which", ["run", "built"])
def test_whatever_is_altered_in_a_finished_run_is_found(finished, capsys, which, alteration):
    names = files_of(finished / which)
    expected = set(READERS) - {"truth.json"} if which == "run" else {"truth.json", "report.json", "metrics.jsonl"}
    assert expected <= set(names) and len(names) > 8
    for name in names:
        assert_found(capsys, finished / which, name, ALTERATIONS[alteration], READERS.get(name))
    assert main(["verify", str(finished)]) == 0


@pytest.mark.parametrize("which", ["run", "built"])
def test_whatever_is_missing_from_a_finished_run_is_found(finished, tmp_path, capsys, which):
    for name in files_of(finished / which):
        if name in ("manifest.json", "config.json"):  # without the one it is unverified, without the other no run
            continue
        if name.endswith("optimizer.safetensors"):  # what a finished run no longer needs, and parcels leave out
            continue
        folder = Path(shutil.copytree(finished / which, tmp_path / "run"))
        (folder / name).unlink()
        assert main(["verify", str(folder)]) == 2, name
        assert f"  {folder / name} is missing" in capsys.readouterr().out, name
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Results as committed, of an experiment and of heads."""
    folder = tmp_path_factory.mktemp("results")
    for name in ("curriculum", "heads_smollm2"):
        shutil.copytree(STUDY / name, folder / name)
    return folder


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_whatever_is_altered_in_results_is_found(results, capsys, alteration):
    """And no table of claims, page or figure is made of it; from a whole table `--redraw` makes the rest anew."""
    readers = {
        "claims.json": lambda folder: all_claims(folder.parent),
        "table.csv": lambda folder: redraw("curriculum", folder),
        "manifest.json": lambda folder: all_claims(folder.parent),
        "figure.svg": page_of,
    }
    for which in ("curriculum", "heads_smollm2"):
        names = files_of(results / which)
        assert len(names) >= 4
        for name in names:
            read = readers[name] if which == "curriculum" else None
            assert_found(capsys, results / which, name, ALTERATIONS[alteration], read)
    folder, before = results / "curriculum", {n: (results / "curriculum" / n).read_bytes() for n in readers}
    for name in ("claims.json", "figure.svg"):
        (folder / name).write_bytes(ALTERATIONS[alteration](before[name]))
    (folder / "table.csv").write_bytes(ALTERATIONS[alteration](before["table.csv"]))
    assert main(["report", "--results", str(results)]) == 2
    assert main(["report", "--results", str(results), "--redraw"]) == 2
    assert f"{folder / 'table.csv'} is" in capsys.readouterr().err
    (folder / "table.csv").write_bytes(before["table.csv"])
    assert main(["report", "--results", str(results), "--redraw"]) == 0
    assert {name: (folder / name).read_bytes() for name in readers} == before


def test_a_table_that_is_altered_is_not_added_to(results, tmp_path, capsys):
    """Not even after hours of training: it is looked at before."""
    shutil.copytree(results, tmp_path / "results")
    path = tmp_path / "results" / "curriculum" / "table.csv"
    path.write_bytes(change_a_digit(path.read_bytes()))
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["reproduce", "curriculum", "--scale", "quick", *where]) == 2
    assert f"{path} is altered" in capsys.readouterr().err and not (tmp_path / "runs").exists()


class Bomb:
    """Whoever unpickles this writes a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "boom"))


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", MANIFEST])
def test_a_pickle_as_a_checkpoints_file_is_never_opened(run, tmp_path, name):
    fuse = tmp_path / "fuse"
    (run.folder(12) / name).write_bytes(pickle.dumps(Bomb(fuse)))
    assert found(run, run.folder(12) / name)
    assert not fuse.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_a_pickle_with_a_manifest_to_match_is_never_opened(run, tmp_path, name):
    """Someone who can write the folder can write the hashes, too; it is still not unpickled, and is passed over."""
    fuse = tmp_path / "fuse"
    about = {key: value for key, value in read_manifest(run.folder(12)).items() if key != "files"}
    files = {each: (run.folder(12) / each).read_bytes() for each in FILES[:2]}
    write_folder(run.folder(12), {**files, name: pickle.dumps(Bomb(fuse))}, about)
    with pytest.raises(Damaged, match="step_00000012 holds a file that is not safetensors"):
        run.checkpoint(12)
    if name == "model.safetensors":
        with pytest.raises(Damaged, match="step_00000012 holds a file that is not safetensors"):
            run.at(12)
    with pytest.warns(UserWarning, match="going on from step 6"):
        assert run.newest().step == 6
    assert not fuse.exists()


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "sessions.jsonl", "report.json"])
def test_a_pickle_as_any_other_file_is_never_opened(run, tmp_path, name):
    fuse = tmp_path / "fuse"
    (run.path / name).write_bytes(pickle.dumps(Bomb(fuse)) + b"\n")
    again = Run(run.path)
    with pytest.raises(BadInput, match=re.escape(name)):
        _ = again.config, again.report, again.rows, again.sessions
    assert not fuse.exists()


UNSAFE = re.compile(
    r"(?<!safetensors\.)torch\.load\(|weights_only|allow_pickle"
    r"|\b(import|from) +(pickle|cloudpickle|dill|joblib|marshal|shelve)\b|read_pickle"
    r"|\bpickle\.|(?<![\w.])(eval|exec|__import__)\("
)


#: Run a program's text, which they made a moment before; what others named stands in comments (test_program.py).
OF_OUR_MAKING = {"program.py": {"exec(", "eval("}, "program_trial.py": {"exec("}}


def test_the_library_never_unpickles_or_evaluates():
    unsafe = ("torch.load(path)", "import pickle", "np.load(f, allow_pickle=True)", "x = eval(text)", "exec(code)")
    safe = ("safetensors.torch.load(data)", "model.eval()", "return model.eval()", "evaluate(model)")
    assert all(UNSAFE.search(line) for line in unsafe) and not any(UNSAFE.search(line) for line in safe)
    files = list(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    for path in files:
        found = {one.group() for one in UNSAFE.finditer(code_of(path))}
        assert found == OF_OUR_MAKING.get(path.name, set()), path


def code_of(path: Path) -> str:
    """A file without its strings: what it says is not what it does."""
    source = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING:
            source = source.replace(token.string, '""')
    return source
