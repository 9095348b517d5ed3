"""The page in a browser: from disk and served, by keyboard alone, with hostile names and damaged runs."""

from __future__ import annotations

import base64
import copy
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import hopscope
from hopscope.circuits.evaluator import AsIs, Evaluator, Silenced
from hopscope.cli import main
from hopscope.explorer.building import Builder
from hopscope.explorer.page import export, inline, page_of, static
from hopscope.explorer.server import Server
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope_studies.gradient_descent.tasks.linear_regression import LinearRegression
from tests.explorer.chromium import EXPLORER, PATIENCE, Opened, chromium, need

pytestmark = pytest.mark.heavy

VIEWS = ("scene", "train", "run", "circuit", "heads", "try", "compare", "census", "claims")
#: Every view, the tour with an arrow taken away and with a sketch, and a claim that is open, with its figure and table.
STATES = (*(f"view={view}" for view in VIEWS), "view=claims&claim=fig4.later_hops_are_harder@cpu", "tell=3", "tell=5")
RESULTS = File(__file__).parents[2] / "hopscope_studies"
INSIDE = ("blob:", "data:")  # the page's own, which nobody fetches
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e{{constructor}}" + "x" * 10_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Closed after this file: Playwright's event loop would be in the way of other files' own."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def demo(tmp_path_factory, request, once) -> SimpleNamespace:
    """The shipped demo as files, as the command writes them.

    With the weights of every step, of the last, and beside another run and all claims.
    Its circuit takes a while to find, so pytest keeps what was measured of its weights for another day.
    """
    folder = tmp_path_factory.mktemp("demo_page")
    files = {
        "address": ["packaged", "--weights", "all"],
        "last": ["packaged", "--weights", "last"],
        "everything": ["packaged", str(once), "--results", str(RESULTS)],
    }
    before = os.environ.get("HOPSCOPE_CACHE")
    os.environ["HOPSCOPE_CACHE"] = str(request.config.cache.mkdir("explorer_demo"))
    try:
        for name, words in files.items():
            assert main(["explore", *words, "--export", str(folder / f"{name}.html")]) == 0
        run = hopscope.load("packaged")
    finally:
        os.environ.pop("HOPSCOPE_CACHE")
        os.environ |= {"HOPSCOPE_CACHE": before} if before else {}
    text = (folder / "address.html").read_text(encoding="utf-8")
    manifest = json.loads(text.split('id="bundle">', 1)[1].split("</script>", 1)[0])
    addresses = {name: (folder / f"{name}.html").as_uri() for name in files}
    return SimpleNamespace(run=run, bundle=manifest["runs"][0], **addresses)


@pytest.fixture
def opened(browser) -> Iterator[Any]:
    """Opens pages, and closes them."""
    pages: list[Opened] = []

    def make(address: str, **context: Any) -> Opened:
        pages.append(Opened(browser, address, **context))
        return pages[-1]

    yield make
    for page in pages:
        page.close()


def known(demo, step: int, change) -> dict[str, float]:
    """The project's own evaluator on the bundle's sequences, with weights rounded as in the file."""
    model = demo.run.at(step).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    batch = demo.run.task.sample(demo.bundle["batch"]["n"], demo.bundle["batch"]["seed"])
    account = Evaluator(model, batch).accounts([change])[0]
    return {**account.hop_losses, "all": float(account.losses.mean())}


def near(before: dict[str, float], after: dict[str, float]) -> dict[str, Any]:
    """What should stand in the page."""
    return {hop: pytest.approx([before[hop], after[hop]], abs=1e-4) for hop in before}


# By keyboard, from disk ------------------------------------------------------------------------------------------


def test_by_keyboard_alone_a_path_is_knocked_out_undone_and_shared(demo, opened):
    first = opened(demo.address, permissions=["clipboard-read", "clipboard-write"])
    path = demo.bundle["circuit"]["paths"][-1]
    name = str(Path.from_dict(path))
    steps = [checkpoint["step"] for checkpoint in demo.bundle["checkpoints"]]
    step = steps[-3]
    keys = first.page.keyboard
    first.tab_to("[data-view=circuit]")
    keys.press("Enter")
    first.tab_to("input#step")
    keys.press("End")
    for _ in range(2):
        keys.press("ArrowLeft")
    for _ in range(3):
        keys.press("Shift+Tab")  # from the slider up into the page again
    first.page.keyboard.press("Tab")
    first.tab_to(f'[data-path="{name}"]')
    before = known(demo, step, AsIs())
    assert first.losses() == near(before, before)
    keys.press("Enter")
    after = known(demo, step, Silenced(frozenset({Path.from_dict(path)}), demo.run.task.null_pattern))
    assert first.losses() == near(before, after)
    assert max(after[hop] - before[hop] for hop in before) > 0.01  # there was something to see
    keys.press("z")
    assert first.losses() == near(before, before)
    keys.press("Enter")
    seen = first.losses()
    assert seen == near(before, after)
    assert_shared(first, seen, name, f"step={step}", demo.address, opened)


def test_by_keyboard_alone_a_page_with_the_last_weights_alone(demo, opened):
    """It holds one checkpoint's weights: of another step it shows what was measured, says so, and leads to the last."""
    first = opened(demo.last, permissions=["clipboard-read", "clipboard-write"])
    path = demo.bundle["circuit"]["paths"][0]
    name, last = str(Path.from_dict(path)), demo.bundle["checkpoints"][-1]
    keys = first.page.keyboard
    first.tab_to("[data-view=circuit]")
    keys.press("Enter")
    first.tab_to("input#step")
    keys.press("Home")
    first.page.get_by_text("The weights of step 0 are not in this file").wait_for()
    measured = demo.bundle["checkpoints"][0]["reference"]["256"]["loss"]
    assert f"{measured:.2f}" in first.page.locator("tr[data-hop=all]").inner_text()
    first.tab_to(".losses > button")  # “Go to step 1,000, which is live”
    keys.press("Enter")
    before = known(demo, last["step"], AsIs())
    assert first.losses() == near(before, before)
    first.tab_to(f'[data-path="{name}"]')
    keys.press("Enter")
    after = known(demo, last["step"], Silenced(frozenset({Path.from_dict(path)}), demo.run.task.null_pattern))
    assert first.losses() == near(before, after)
    first.tab_to(".card-head .actions button:first-child")
    assert first.page.evaluate("document.activeElement.textContent") == "Undo"
    keys.press("Enter")
    assert first.losses() == near(before, before)
    first.tab_to(f'[data-path="{name}"]')
    keys.press("Enter")
    assert_shared(first, first.losses(), name, "off=", demo.last, opened)


def assert_shared(first: Opened, seen: dict[str, list[float]], path: str, word: str, address: str, opened: Any) -> None:
    """By keyboard the link is copied; a browser that knows nothing of the first opens the same state from it."""
    first.tab_to(".tools button.quiet:first-of-type")
    first.page.keyboard.press("Enter")
    first.page.get_by_text("Copied", exact=True).wait_for()
    link = first.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(address + "#") and word in link
    second = opened(link)
    assert second.losses() == seen
    assert second.page.locator(f'[data-path="{path}"]').get_attribute("aria-pressed") == "true"
    assert second.page.evaluate("location.href") == link == first.page.evaluate("location.href")
    assert first.said == second.said == []
    assert {asked.partition("#")[0] for asked in first.asked + second.asked if asked[:5] not in INSIDE} == {address}


def test_scrubbing_ends_in_the_last_steps_answer(demo, opened):
    path = Path.from_dict(demo.bundle["circuit"]["paths"][0])
    page = opened(f"{demo.address}#view=circuit&off=L{path.layer}H{path.head}.{path.query}.{path.key}.{path.chain}")
    page.losses()
    page.page.locator("input#step").focus()
    page.page.keyboard.press("Home")
    for _ in demo.bundle["checkpoints"][1:]:
        page.page.keyboard.press("ArrowRight")
    found = page.losses()
    last = demo.bundle["checkpoints"][-1]["step"]
    after = known(demo, last, Silenced(frozenset({path}), demo.run.task.null_pattern))
    assert {hop: losses[1] for hop, losses in found.items()} == pytest.approx(after, abs=1e-4)
    assert page.said == []


def test_typed_facts_are_answered(demo, opened):
    page = opened(f"{demo.address}#view=try")
    page.page.get_by_label("Facts").fill("ann>bob bob>cy")
    answers = page.page.locator(".answer b bdi")
    answers.first.wait_for()
    page.page.get_by_text("20 of 20").first.wait_for()
    assert answers.all_inner_texts() == ["bob", "cy"]
    page.page.get_by_label("Facts").fill("ann>bob bob>ann")
    page.page.get_by_text("run in a circle").wait_for()
    assert page.said == []


# Typed sequences, and who computes ---------------------------------------------------------------------------------

TYPED = [3, 1, 4, 8, 5, 2, 4]


@pytest.fixture(scope="module")
def inducing(tmp_path_factory) -> hopscope.Run:
    """A run on a task that is no fact sheet: its sequences are typed token by token."""
    recipe = hopscope.Training(steps=2, batch=4, val_size=4, log_every=1, checkpoints="2")
    shape = hopscope.Architecture(n_layers=2, d_model=8)
    config = hopscope.Config(Induction(length=6, d_vocab=9), shape, recipe)
    return hopscope.train(config, tmp_path_factory.mktemp("inducing") / "run", threads=1, compile="off")


@contextmanager
def served(builder: Builder) -> Iterator[Server]:
    with Server(builder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def answered(page: Opened) -> tuple[str, float]:
    """The one answer that stands in the page, and its probability in percent."""
    cell = page.page.locator(".typed-answers td")
    cell.wait_for()
    return cell.locator("bdi").first.inner_text(), float(cell.locator("small").inner_text().split(" %")[0])


def best(run: hopscope.Run, change: Any, half: bool = False) -> tuple[str, Any]:
    """The same by PyTorch."""
    model = run.model.float().eval()
    if half:
        for value in model.state_dict().values():
            value.copy_(value.half().float())
    with torch.no_grad():
        output = Evaluator(model, Batch(run.task, run.task.read(TYPED))).outputs([change])[0][0, 0]
    top = output.softmax(-1).max(-1)
    return f"t{int(top.indices)}", pytest.approx(100 * float(top.values), abs=0.06)


def test_a_typed_sequence_is_answered_from_disk_without_a_word_on_what_is_right(inducing, opened, tmp_path):
    export(Builder([inducing.path]), tmp_path / "page.html")
    page = opened(f"{(tmp_path / 'page.html').as_uri()}#view=try&facts={'+'.join(f't{token}' for token in TYPED)}")
    assert answered(page) == best(inducing, AsIs(), half=True)
    page.page.get_by_text("does not know which answers are right").wait_for()
    page.page.get_by_label("Sequence").fill("t1 t2")
    page.page.get_by_text("A sequence of this task has 7 symbols; 2 are typed.").wait_for()
    assert page.page.locator(".typed-answers").count() == 0
    page.page.get_by_label("Sequence").fill("ann bob cy dee eve fay bob")
    answered(page)
    assert page.said == []


def test_served_a_typed_sequence_is_right_by_the_tasks_own_word_and_under_changes(inducing, opened):
    builder = Builder([inducing.path], which="all", dtype="float32")
    builder.build()
    words = "+".join(f"t{token}" for token in TYPED)
    path = Path.parse("L1H0 query->value[1]")
    with served(builder) as server:
        page = opened(server.address)
        page.go(f"view=try&facts={words}")
        named, _ = plain = answered(page)
        assert plain == best(inducing, AsIs())
        page.page.get_by_text(f"{int(named == 't8')} of 1 right").wait_for()  # 8 followed the first 4
        page.go(f"view=try&facts={words}&off=L1H0.query.value[1].same")
        page.page.get_by_text("asked as changed").wait_for()
        assert answered(page) == best(inducing, Silenced(frozenset({path})))
        page.page.get_by_label("Sequence").fill("t3 t1 t4 t8 t5 t2 t7")
        page.page.get_by_text("the query, must be one of those before it").wait_for()
    assert [said for said in page.said if "400" not in said] == []  # the refusal itself is told by the browser


def test_typed_facts_are_computed_by_python_where_the_page_cannot(small, opened, tmp_path, monkeypatch):
    """A model of another kind, served: the same words and the same view; from disk the reason stands there."""
    why = "The page does not compute attention of this kind."
    monkeypatch.setattr("hopscope.explorer.describing.fallback", lambda model, task: why)
    builder = Builder([small.path], which="all", dtype="float32")
    builder.build()
    asked = {"run": [builder.parts[0].identity], "step": ["12"], "fresh": ["20"], "seed": ["0"]}
    told = builder.answer("&".join(f"{key}={value[0]}" for key, value in asked.items()))["typed"]
    ann = [one for sequence in told for one in sequence["answers"] if sequence["order"]["queries"][one["query"]] == 0]
    with served(builder) as server:
        page = opened(server.address)
        page.go("view=try&facts=ann>bob+cy>dee")
        right = sum(one["named"] == one["right"] for one in ann)
        page.page.locator(".chain").first.get_by_text(f"{right} of 20").wait_for()
        assert page.said == []
    file = tmp_path / "page.html"
    export(builder, file)
    page = opened(f"{file.as_uri()}#view=try&facts=ann>bob")
    page.page.locator("main").get_by_text(why).wait_for()
    assert page.said == []


def test_a_task_that_cannot_be_typed_says_so(small, opened, tmp_path, monkeypatch):
    told = {"kind": "none", "told": "Sequences of the task x cannot be typed: it does not read them."}
    monkeypatch.setattr("hopscope.explorer.sequences.typing_of", lambda batch: told)
    export(Builder([small.path]), tmp_path / "page.html")
    page = opened(f"{(tmp_path / 'page.html').as_uri()}#view=try")
    page.page.get_by_text(told["told"]).wait_for()
    assert page.page.locator("textarea").count() == 0 and page.said == []


# Positions that stand in relations, and answers that are numbers ---------------------------------------------------


@pytest.fixture(scope="module", params=["relations", "numbers"])
def unusual(request, tmp_path_factory) -> hopscope.Run:
    """A run whose positions have no roles, or whose answers name nothing."""
    task = {"relations": HopK(length=8, n_letters=3, n_hops=2), "numbers": LinearRegression(d_x=2, n_points=4)}
    recipe = hopscope.Training(steps=2, batch=4, val_size=4, log_every=1, checkpoints="2")
    config = hopscope.Config(task[request.param], hopscope.Architecture(n_layers=2, d_model=8), recipe)
    return hopscope.train(config, tmp_path_factory.mktemp(request.param) / "run", threads=1, compile="off")


def test_from_disk_any_run_is_shown_and_its_paths_are_knocked_out(unusual, opened, tmp_path):
    export(Builder([unusual.path]), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    manifest = json.loads(text.split('id="bundle">', 1)[1].split("</script>", 1)[0])
    shown = SimpleNamespace(run=unusual, bundle=manifest["runs"][0])
    path = Path.from_dict(next(path for path in shown.bundle["paths"] if path["layer"] == 1))
    change = Silenced(frozenset({path}), unusual.task.null_pattern)
    words = f"off=L{path.layer}H{path.head}.{path.query}.{path.key}.{path.chain}"
    page = opened(f"{(tmp_path / 'page.html').as_uri()}#view=circuit&{words}")
    assert page.losses() == near(known(shown, 2, AsIs()), known(shown, 2, change))
    for view in VIEWS:
        page.go(f"view={view}")
        page.page.locator("main :is(h1, h2, p)").first.wait_for()
    assert page.said == []


def test_what_an_address_names_and_is_not_here_is_told(demo, opened):
    page = opened(f"{demo.address}#view=circuit&step=7&off=L9H9.a.b.same&colour=red")
    notes = page.page.locator(".notes").inner_text()
    assert all(word in notes for word in ("“7”", "L9H9.a.b.same", "“colour”", "ignored"))
    assert page.said == []


# How it is for all people ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(demo, opened, scheme):
    """In any view; the contrast of words is among what it looks at, and all that darkness changes."""
    axe = EXPLORER / "node_modules/axe-core/axe.min.js"
    need(None if axe.is_file() else "axe-core is not installed: npm ci --prefix explorer")
    page = opened(demo.everything, color_scheme=scheme, reduced_motion="reduce")
    page.page.evaluate(axe.read_text())
    looked_at = {"resultTypes": ["violations"]} | ({"runOnly": ["color-contrast"]} if scheme == "dark" else {})
    for state in STATES:
        page.go(state)
        found = page.page.evaluate("options => axe.run(document, options)", looked_at)["violations"]
        serious = [
            (one["id"], [node["html"][:160] for node in one["nodes"][:3]], one["nodes"][0]["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], state
    assert page.said == []


def test_a_narrow_screen_shows_all(demo, opened):
    """Nothing hangs over the edge of 360 pixels, but in boxes that scroll."""
    page = opened(demo.everything, viewport={"width": 360, "height": 740})
    for state in STATES:
        page.go(state)
        widths = page.page.evaluate(
            "[document.documentElement.scrollWidth, document.querySelector('main').scrollWidth, innerWidth]"
        )
        assert widths == [360, 360, 360], state
        assert page.page.evaluate(OVER) == [], state


OVER = """() => [...document.querySelectorAll('.hopscope-explorer *')].filter(one => {
  const box = one.getBoundingClientRect();
  const shown = box.width > 0 && box.height > 0 && getComputedStyle(one).visibility === 'visible';
  return shown && !one.closest('.scroller, nav, svg, .hidden') && (box.right > 361 || box.left < -1);
}).map(one => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_one_chooses(demo, opened, scheme):
    page = opened(f"{demo.everything}#view=run", color_scheme=scheme)
    ground = "getComputedStyle(document.querySelector('.hopscope-explorer')).backgroundColor"
    light, dark = "rgb(246, 247, 248)", "rgb(18, 20, 23)"
    assert page.page.evaluate(ground) == {"light": light, "dark": dark}[scheme]
    painted = "document.querySelector('.strip-map').getContext('2d').getImageData(4, 4, 1, 1).data.join()"
    before = page.page.evaluate(painted)
    page.page.get_by_label("Colours: auto; change").click()
    assert page.page.evaluate(ground) == dark
    page.page.get_by_label("Colours: dark; change").click()
    assert page.page.evaluate(ground) == light
    assert (page.page.evaluate(painted) == before) == (scheme == "light")  # canvases are painted anew


# What may be wrong -----------------------------------------------------------------------------------------------


def written(bundle, manifest: dict[str, Any], file: File) -> str:
    """A page whose manifest was meddled with; its address."""
    file.write_text(page_of(bundle, json.dumps(manifest), inline(static("page.js")), static("page.css"), "x"))
    return file.as_uri()


def test_hostile_names_are_but_names(small, opened, tmp_path):
    builder = Builder([small.path], which="last", results=RESULTS)
    bundle = builder.build()
    manifest = copy.deepcopy(json.loads(builder.text))
    run = manifest["runs"][0]
    run["name"] = HOSTILE
    for claim in manifest["claims"][:3]:
        claim |= dict.fromkeys(("experiment", "id", "section", "sentence", "about", "paper", "command"), HOSTILE)
    run["warnings"] = [HOSTILE]
    for instance in run["batch"]["instances"]:
        instance["symbols"] = [HOSTILE for _ in instance["symbols"]]
        instance["queries"] = [HOSTILE for _ in instance["queries"]]
    address = written(bundle, manifest, tmp_path / "hostile.html")
    image = "%3Cimg%20src=x%20onerror=alert(1)%3E"
    asked = f"find={HOSTILE[:60]}&claim={HOSTILE[:60]}&run={HOSTILE[:500]}&facts={image * 90}"
    for view in VIEWS:
        page = opened(f"{address}#view={view}&{asked}")
        page.page.wait_for_timeout(300)
        assert page.page.locator("main img").count() == 0
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert page.said == []


def test_typed_hostile_facts_are_told_or_answered(demo, opened):
    page = opened(f"{demo.address}#view=try")
    for text in (HOSTILE, "\u202eann>bob bob>cy", "<b>a</b>>c c>d", "a>b " * 1000):
        page.page.get_by_label("Facts").fill(text)
        page.page.wait_for_timeout(400)
        assert page.page.locator("main img").count() == 0
    assert page.said == []


def test_a_damaged_checkpoint_is_told_and_the_page_goes_on(small, opened, tmp_path):
    folders = sorted((small.path / "checkpoints").iterdir())
    shutil.rmtree(folders[1])
    folders[1].mkdir()
    builder = Builder([small.path], which="all")
    bundle = builder.build()
    bad = [one for one in bundle.manifest["runs"][0]["checkpoints"] if one["state"] in ("damaged", "missing")]
    assert len(bad) == 1
    address = written(bundle, json.loads(builder.text), tmp_path / "damaged.html")
    page = opened(f"{address}#view=circuit&step={bad[0]['step']}")
    assert bad[0]["told"][:80] in page.page.locator(".notes").inner_text()
    page.page.locator("input#step").focus()
    page.page.keyboard.press("End")
    assert page.losses()["all"][0] > 0
    assert page.said == []


def test_a_bundle_that_is_cut_short_is_told(small, opened, browser, tmp_path):
    builder = Builder([small.path], which="last")
    bundle = builder.build()
    file = tmp_path / "cut.html"
    written(bundle, {"format": 99}, file)
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    page.get_by_role("alert").wait_for()
    assert "format 99" in page.get_by_role("alert").inner_text()
    context.close()


# Served ----------------------------------------------------------------------------------------------------------


def test_served_the_page_asks_nobody_else(small, opened):
    builder = Builder([small.path], which="all", dtype="float32")
    builder.build()
    with served(builder) as server:
        page = opened(f"{server.address}#view=circuit")
        found = page.losses()
    reference = builder.bundle.manifest["runs"][0]["checkpoints"][-1]["reference"]["256"]
    assert found["all"][0] == pytest.approx(reference["loss"], rel=1e-5)
    assert all(asked.startswith((f"http://{server.host}/", "blob:", "data:")) for asked in page.asked)
    assert page.said == []


# In a notebook ---------------------------------------------------------------------------------------------------

CELL = """async ({script, style}) => {
  const source = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
  const {default: widget} = await import(source);
  document.head.append(Object.assign(document.createElement("style"), {textContent: style}));
  const heard = {}, values = {state: "", height: 600};
  const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const send = async question => {
    const {content, buffers} = await window.asked(question);
    heard["msg:custom"](content, buffers.map(text => new DataView(bytes(text).buffer)));
  };
  window.model = {
    get: name => values[name], set: (name, value) => { values[name] = value; },
    save_changes: () => window.saved(values.state),
    on: (event, listen) => { heard[event] = listen; }, off: () => {}, send,
    put: state => { values.state = state; heard["change:state"](); },
  };
  const el = document.body.appendChild(document.createElement("div"));
  window.end = widget.render({model: window.model, el});
}"""


def test_the_widget_and_python_talk(small, browser, monkeypatch):
    """`hopscope.explore(run)`'s two sides, as a notebook joins them: what the page asks, the widget itself answers."""
    view = hopscope.explore(small, height=600)
    sent: list[tuple[dict[str, Any], list[bytes]]] = []
    monkeypatch.setattr(view, "send", lambda content, buffers: sent.append((content, buffers)))

    def asked(question: dict[str, Any]) -> dict[str, Any]:
        view.receive(question)
        content, buffers = sent.pop()
        return {"content": content, "buffers": [base64.b64encode(one).decode() for one in buffers]}

    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.expose_function("asked", asked)
    page.expose_function("saved", lambda state: setattr(view, "state", state))
    page.goto("about:blank")
    page.evaluate(CELL, {"script": static("widget.js"), "style": static("page.css")})
    cell = page.locator(".hopscope-explorer.in-cell")
    cell.locator("nav button", has_text="Circuit").click()
    cell.locator("[data-ready=yes]").wait_for(state="attached")
    assert cell.bounding_box()["height"] == 600
    assert view.state.startswith("view=circuit&run=")
    loss = float(cell.locator("tr[data-hop=all] [data-value]").first.get_attribute("data-value"))
    reference = view.builder.bundle.manifest["runs"][0]["checkpoints"][-1]["reference"]["256"]["loss"]
    assert loss == pytest.approx(reference, rel=1e-5)
    page.evaluate("model.put('view=heads')")
    cell.locator(".big-map").first.wait_for()
    page.evaluate("end()")
    assert page.locator(".hopscope-explorer").count() == 0
    assert said == []
    page.close()
    view.close()
