"""Parcels that a stranger packed: any members, any bytes, with hashes to match. Refused in a sentence; nothing escapes.

Hypothesis writes tars of any names, kinds and contents, flips their bytes, and writes any `parcel.json`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile

import pytest
from hypothesis import given, settings, strategies as st

from hopscope.core.settings import BadInput
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import trained
from tools.collecting import collect
from tools.parcels import pack

BUDGET = settings(max_examples=40, deadline=None, derandomize=True)

RUN = "runs/retrieval-0123456789ab"
NAMES = st.sampled_from(
    [
        *(f"{RUN}/{name}" for name in ("config.json", "metrics.jsonl", "report.json", "manifest.json", "DONE")),
        f"{RUN}/checkpoints/step_00000004/manifest.json",
        f"{RUN}/checkpoints/step_00000004/model.safetensors",
        "runs/../outside/config.json",
        "../outside",
        "/tmp/outside",
        "runs/.lock/config.json",
        "runs/\x1b[31m/config.json",
        "x" * 300,
        "",
    ]
)
KINDS = st.sampled_from(
    [tarfile.REGTYPE] * 6
    + [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE]
)
CONTENTS = st.binary(max_size=64) | st.sampled_from([b"{}", b"[" * 9_999, b'{"format": 1}', b'{"files": {"../x": 5}}'])


@st.composite
def tars(draw):
    """A tar of some members, perhaps with some bytes changed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, kind, data in draw(st.lists(st.tuples(NAMES, KINDS, CONTENTS), max_size=5)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "../../outside", len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
    whole = bytearray(packed.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        whole[draw(st.integers(0, len(whole) - 1))] = draw(st.integers(0, 255))
    data = gzip.compress(bytes(whole), 1)
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 5)) == 0 else data


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name[0] != "."}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A home with a run of ours, and the parcel of another."""
    folder = tmp_path_factory.mktemp("place")
    trained(folder / "home" / "retrieval-0123456789ab")
    there = trained(folder / "there" / "a", seed=1)
    there.path.rename(folder / "there" / f"retrieval-{there.config.identity}")
    pack(folder / "there", folder / "right")
    return folder


def collected(place, data, about=None):
    """What comes of a parcel; a sentence where it is refused. Nothing of ours may change, nor anything outside."""
    parcel = place / "parcel"
    parcel.mkdir(exist_ok=True)
    (parcel / "part-0").write_bytes(data)
    told = {"parts": [hashlib.sha256(data).hexdigest()], "left_out": []}
    (parcel / "parcel.json").write_bytes(json.dumps(told).encode() if about is None else about)
    ours, outside = contents(place / "home"), {path.name for path in place.iterdir()}
    said, came = "", []
    try:
        came = collect(parcel, place / "home")
    except BadInput as error:
        said = str(error)
    assert came or "\n" not in said
    assert contents(place / "home").items() >= ours.items() if came else contents(place / "home") == ours
    assert {path.name for path in place.iterdir()} == outside
    return came


@BUDGET
@given(tars())
def test_any_tar_is_refused_or_empty(place, data):
    assert collected(place, data) == []


#: What text is made of by default, said so that Hypothesis does not try UTF-8 on every character that there is.
ANY = st.characters(exclude_categories=["Cs"])
SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(ANY, max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["parts", "left_out", "x"]), inner),
    max_leaves=5,
)


RAW = st.sampled_from([b"", b"[" * 10**6, b"9" * 5_000, b"\xff"])


@BUDGET
@given(SHAPES.map(lambda value: json.dumps(value).encode()) | RAW)
def test_any_contents_page_is_refused_or_empty(place, about):
    assert collected(place, gzip.compress(b""), about) == []


@settings(BUDGET, max_examples=20)
@given(st.data())
def test_a_right_parcel_with_a_byte_changed_inside_is_refused_or_the_same(place, data):
    """The change is in the unpacked tar, so that neither gzip's checksum nor the parts' hashes tell."""
    parts = sorted((place / "right").glob("part-*"))
    whole = bytearray(gzip.decompress(b"".join(path.read_bytes() for path in parts)))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for name in collected(place, gzip.compress(bytes(whole), 1)):
        shutil.rmtree(place / "home" / name)  # a change where tar keeps nothing that is read
