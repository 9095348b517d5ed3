/** What is chosen on the page, and how it stands in the address: by names, so that a link survives another order of paths. */
import type { Claim, Manifest, Path, Run } from "./bundle.ts";
import { type Curriculum, FIRST, type Lesson, MOST, runOf as taughtBy } from "./engine/lesson.ts";

export const VIEWS = ["scene", "train", "run", "circuit", "heads", "try", "compare", "census", "claims"] as const;
export type View = (typeof VIEWS)[number];

export interface Choice {
  view: View;
  run: string;
  step: number;
  inst: number;
  /** `L1H0`, or empty. */
  head: string;
  /** Names of paths. */
  off: readonly string[];
  ideal: readonly string[];
  hand: boolean;
  /** 1–5: a paragraph of the scene; 0: none yet. How the scene's sequence is drawn. */
  tell: number;
  draw: number;
  /** What is trained in the page, and for how many steps; 0: not yet. */
  lesson: Lesson;
  trained: number;
  /** What this is compared with: `run@step`, or empty. */
  against: string;
  /** Whether that is at the same step. */
  same: boolean;
  /** Typed facts, or a typed sequence. */
  facts: string;
  /** Which claims are shown: by their words, verdict, study, paper and scale; and which one is open, `experiment.id@scale`. */
  find: string;
  verdict: string;
  study: string;
  paper: string;
  scale: string;
  claim: string;
}

export const NOTHING: Choice = {
  view: "run",
  run: "",
  step: -1,
  inst: 0,
  head: "",
  off: [],
  ideal: [],
  hand: false,
  tell: 0,
  draw: 0,
  lesson: FIRST,
  trained: 0,
  against: "",
  same: false,
  facts: "",
  find: "",
  verdict: "",
  study: "",
  paper: "",
  scale: "",
  claim: "",
};

const OF_LESSON = ["hops", "layers", "prior", "curriculum", "seed", "trained"];
const LONGEST_TRAINED = 20_000; // steps
const OF_CLAIMS = ["find", "verdict", "study", "paper", "scale", "claim"] as const;
const OTHERS = [
  "v",
  "view",
  "run",
  "step",
  "inst",
  "head",
  "off",
  "ideal",
  "hand",
  "tell",
  "draw",
  "vs",
  "same",
  "facts",
];
const KNOWN = new Set<string>([...OTHERS, ...OF_LESSON, ...OF_CLAIMS]);
const LONGEST = 8000; // characters of an address's end that are read

/** A path as an address has it: `L1H0.query.value[1].same`. */
export function dotted(path: Path): string {
  return `L${path.layer}H${path.head}.${path.query}.${path.key}.${path.chain}`;
}

/** A claim as an address has it: `fig4.onset@cpu`. */
export function placeOfClaim({ experiment, id, scale }: Claim): string {
  return `${experiment}.${id}@${scale}`;
}

/** The run that a choice is about. */
export function runOf(manifest: Manifest, identity: string): Run | undefined {
  return manifest.runs.find((run) => run.identity === identity);
}

/** The step that is shown if none is asked for: the last that is measured. */
export function lastStep(run: Run): number {
  const ready = run.checkpoints.filter((one) => one.state === "ready");
  return (ready.at(-1) ?? run.checkpoints.at(-1))?.step ?? 0;
}

/** A choice as what stands behind # in an address. Only what differs from the page as it opens is said. */
export function written(choice: Choice, manifest: Manifest): string {
  const run = runOf(manifest, choice.run);
  const trains = choice.view === "train";
  const names = new Map(pathsOf(run, trains ? choice.lesson : null).map((path) => [path.name, dotted(path)]));
  const said: [string, string][] = [["view", choice.view]];
  const say = (name: string, value: string | number, unless: unknown): void => {
    if (value !== unless) said.push([name, String(value)]);
  };
  say("run", choice.run, "");
  if (trains) {
    const { prior, ...lesson } = choice.lesson; // said whole, so that it survives other defaults
    const values = Object.entries({ ...lesson, prior: prior ? 1 : 0 });
    said.push(...values.map(([name, value]): [string, string] => [name, String(value)]));
    say("trained", choice.trained, 0);
    say("draw", choice.draw, 0);
    for (const name of choice.off) say("off", names.get(name) ?? "", "");
    return joined(said);
  }
  if (run) say("step", choice.step, lastStep(run));
  say("inst", choice.inst, 0);
  say("head", choice.head, "");
  for (const name of choice.off) say("off", names.get(name) ?? "", "");
  for (const name of choice.ideal) say("ideal", names.get(name) ?? "", "");
  say("hand", choice.hand ? 1 : 0, 0);
  say("tell", choice.tell, 0);
  say("draw", choice.draw, 0);
  say("vs", choice.against, "");
  say("same", choice.same ? 1 : 0, 0);
  say("facts", choice.facts, "");
  for (const name of OF_CLAIMS) say(name, choice[name], "");
  return joined(said);
}

/** The paths that a choice may change: of a run, or of the model that is trained in the page. */
function pathsOf(run: Run | undefined, lesson: Lesson | null): Path[] {
  return (lesson ? taughtBy(lesson) : run)?.paths ?? [];
}

function joined(said: readonly [string, string][]): string {
  return said.map(([name, value]) => `${name}=${escaped(value)}`).join("&");
}

function escaped(value: string): string {
  return encodeURIComponent(value).replaceAll("%5B", "[").replaceAll("%5D", "]");
}

/** The inverse: a choice that the bundle can show, and a sentence about each value that it cannot. */
export function read(address: string, manifest: Manifest): { choice: Choice; told: string[] } {
  const query = new URLSearchParams(address.replace(/^#/, "").slice(0, LONGEST));
  const told: string[] = [];
  const ignore = (name: string, value: string): void => {
    told.push(`The address names ${name} “${value.slice(0, 60)}”, which is not here; it was ignored.`);
  };
  const of = <T>(name: string, look: (value: string) => T | undefined, otherwise: T): T => {
    const value = query.get(name);
    if (value === null) return otherwise;
    const found = look(value);
    if (found === undefined) ignore(name, value);
    return found ?? otherwise;
  };
  for (const name of new Set(query.keys())) if (!KNOWN.has(name)) ignore("something called", name);
  const first = manifest.runs.find((one) => !one.error);
  const known = (value: string | null) => VIEWS.find((one) => one === value);
  const usual = first ? (sceneable(first) ? "scene" : "run") : "claims";
  const view = of("view", known, known(manifest.opens) ?? usual);
  const identity = of("run", (value) => runOf(manifest, value)?.identity, first?.identity ?? "");
  const run = runOf(manifest, identity);
  const among = (list: readonly number[]) => (value: string) => list.find((one) => String(one) === value);
  const steps = run?.checkpoints?.map((one) => one.step) ?? [];
  const claims = manifest.claims ?? [];
  const lesson: Lesson = {
    hops: of("hops", from(1, MOST.hops), FIRST.hops),
    layers: of("layers", from(1, MOST.layers), FIRST.layers),
    prior: of("prior", flag, FIRST.prior),
    curriculum: of<Curriculum>("curriculum", (value) => CURRICULA.find((one) => one === value), FIRST.curriculum),
    seed: of("seed", from(0, MOST.seed), FIRST.seed),
  };
  const all = pathsOf(run, view === "train" ? lesson : null);
  const byDots = new Map(all.map((path) => [dotted(path), path.name]));
  const paths = (name: string): string[] =>
    query.getAll(name).flatMap((value) => {
      const found = byDots.get(value);
      if (!found) ignore(`${name} a path`, value);
      return found ? [found] : [];
    });
  const choice: Choice = {
    view,
    run: identity,
    step: of("step", among(steps), run?.checkpoints ? lastStep(run) : -1),
    inst: of("inst", among([...(run?.batch?.instances.keys() ?? [])]), 0),
    head: of("head", (value) => heads(run).find((one) => one === value), ""),
    off: paths("off"),
    ideal: paths("ideal"),
    hand: of("hand", flag, false),
    tell: of("tell", among([0, 1, 2, 3, 4, 5, 6]), 0),
    draw: of("draw", from(0, 999_999), 0),
    lesson,
    trained: of("trained", from(0, LONGEST_TRAINED), 0),
    against: of("vs", (value) => (placed(value, manifest) ? value : undefined), ""),
    same: of("same", flag, false),
    facts: of("facts", (value) => value, ""),
    find: of("find", (value) => value, ""),
    verdict: of("verdict", (value) => claims.find((one) => one.verdict === value)?.verdict, ""),
    study: of("study", (value) => claims.find((one) => one.study === value)?.study, ""),
    paper: of("paper", (value) => claims.find((one) => one.paper === value)?.paper, ""),
    scale: of("scale", (value) => claims.find((one) => one.scale === value)?.scale, ""),
    claim: of("claim", (value) => claims.map(placeOfClaim).find((one) => one === value), ""),
  };
  return { choice, told };
}

const CURRICULA: readonly Curriculum[] = ["implicit", "none"];

/** Whole numbers of a range. */
const from =
  (least: number, most: number) =>
  (value: string): number | undefined =>
    /^\d{1,6}$/.test(value) && Number(value) >= least && Number(value) <= most ? Number(value) : undefined;

const flag = (value: string): boolean | undefined => (value === "1" ? true : value === "0" ? false : undefined);

/** Whether there is a scene of a run: the page itself runs its trained model, and can read what streams hold. */
export function sceneable(run: Run | undefined): boolean {
  return Boolean(run?.decoders && run.circuit?.paths.length && run.model.native);
}

/** The names of a run's heads, by layer. */
export function heads(run: Run | undefined): string[] {
  if (!run?.model) return [];
  const { n_layers, n_heads } = run.model;
  return Array.from({ length: n_layers * n_heads }, (_, i) => `L${Math.floor(i / n_heads)}H${i % n_heads}`);
}

/** `run@step` as what it names. */
export function placed(value: string, manifest: Manifest): { run: Run; step: number } | undefined {
  const [identity = "", step] = value.split("@");
  const run = runOf(manifest, identity);
  const found = run?.checkpoints?.find((one) => String(one.step) === step);
  return run && found && { run, step: found.step };
}
