import assert from "node:assert/strict";
import { test } from "node:test";
import type { Manifest } from "../src/bundle.ts";
import { lastStep, read, written } from "../src/choice.ts";

const path = (layer: number, query: string, key: string, chain: "same" | "other" = "same") => ({
  name: `L${layer}H0 ${query}->${key}${chain === "other" ? " (other)" : ""}`,
  ...{ layer, head: 0, query, key, chain },
});

const manifest = {
  runs: [
    {
      identity: "0123456789ab",
      error: null,
      model: { n_layers: 2, n_heads: 1 },
      paths: [path(0, "value[1]", "key[1]"), path(1, "query", "value[1]"), path(1, "query", "value[1]", "other")],
      checkpoints: [
        { step: 0, state: "ready" },
        { step: 40, state: "ready" },
        { step: 80, state: "damaged" },
      ],
      batch: { instances: [{}, {}] },
    },
    { identity: "ba9876543210", error: "cannot be read" },
  ],
  claims: [
    { experiment: "fig4", id: "onset", scale: "cpu", verdict: "fails", paper: "Bietti et al. (2023)", study: "x" },
  ],
} as unknown as Manifest;

test("what is written is read again", () => {
  const { choice } = read("", manifest);
  const changed = {
    ...choice,
    view: "heads" as const,
    step: 0,
    inst: 1,
    head: "L1H0",
    off: ["L0H0 value[1]->key[1]", "L1H0 query->value[1] (other)"],
    ideal: ["L1H0 query->value[1]"],
    hand: true,
    tell: 4,
    against: "0123456789ab@80",
    same: true,
    facts: "ann>bob bob>cy & more=less #",
    find: "a & b",
    verdict: "fails",
    study: "x",
    paper: "Bietti et al. (2023)",
    scale: "cpu",
    claim: "fig4.onset@cpu",
  };
  const again = read(`#${written(changed, manifest)}`, manifest);
  assert.deepEqual(again, { choice: changed, told: [] });
});

test("a page opens on the view that it names, unless the address names another", () => {
  const report = { ...manifest, opens: "claims" } as Manifest;
  assert.deepEqual([read("", report).choice.view, read("view=heads", report).choice.view], ["claims", "heads"]);
  assert.equal(read("", { ...manifest, opens: "nowhere" } as Manifest).choice.view, "run");
});

test("a path is written by its name, not its number", () => {
  const address = written({ ...read("", manifest).choice, off: ["L1H0 query->value[1]"] }, manifest);
  assert.match(address, /off=L1H0\.query\.value\[1\]\.same/);
});

test("the last step that can be shown is where one begins, and it is not written", () => {
  const { choice } = read("", manifest);
  assert.equal(choice.step, 40);
  assert.equal(lastStep(manifest.runs[0]!), 40);
  assert.doesNotMatch(written(choice, manifest), /step/);
});

test("what is unknown is ignored and told, and the rest stays", () => {
  const { choice, told } = read(
    "#view=circuit&run=nobody&step=41&off=L7H7.a.b.same&inst=9&colour=red&hand=2",
    manifest,
  );
  assert.equal(choice.view, "circuit");
  assert.equal(choice.run, "0123456789ab");
  assert.equal(choice.step, 40);
  assert.deepEqual(choice.off, []);
  assert.equal(told.length, 6);
});

test("a hostile address is cut and shortened", () => {
  const { told } = read(`#run=${"x".repeat(100_000)}`, manifest);
  assert.ok(told[0]!.length < 200);
});

test("a run that cannot be read may be chosen", () => {
  const { choice } = read("#run=ba9876543210", manifest);
  assert.equal(choice.run, "ba9876543210");
  assert.equal(choice.step, -1);
});

test("a filter or a claim that no claim has is told", () => {
  const { choice, told } = read("#view=claims&verdict=never&paper=Nobody&claim=fig4.offset@cpu&find=x", manifest);
  assert.deepEqual([choice.verdict, choice.paper, choice.claim, choice.find], ["", "", "", "x"]);
  assert.equal(told.length, 3);
});

test("a lesson is in the link of its view, whole, and only there", () => {
  const { choice } = read("view=train", manifest);
  const lesson = { hops: 3, layers: 4, prior: false, curriculum: "none" as const, seed: 7 };
  const link = written({ ...choice, lesson, trained: 120 }, manifest);
  assert.deepEqual(read(link, manifest).choice, { ...choice, lesson, trained: 120 });
  assert.match(written(choice, manifest), /hops=2&layers=3&curriculum=implicit&seed=0&prior=1$/);
  assert.doesNotMatch(written({ ...choice, view: "run", lesson }, manifest), /hops|trained/);
  const off = ["L1H0 value[1]->value[2]"];
  assert.deepEqual(read(written({ ...choice, off }, manifest), manifest), { choice: { ...choice, off }, told: [] });
  const { choice: other, told } = read("view=train&hops=4&layers=0&seed=-1&trained=1e3&curriculum=staged", manifest);
  assert.deepEqual([other.lesson, other.trained, told.length], [choice.lesson, 0, 5]);
});
