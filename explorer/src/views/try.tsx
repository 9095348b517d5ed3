/** View 4: facts that a person types, posed to the model twenty times, each time in another order with other symbols. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import type { Answered, Attempt } from "../engine/live.ts";
import { sheetOf } from "../engine/sheet.ts";
import { type Problem, problem } from "../engine/typed.ts";
import { hue, name, short, symbolOf } from "../parts/words.ts";
import { said, useStore } from "../store.ts";

const NAMES = [
  "ann",
  "bob",
  "cy",
  "dee",
  "eve",
  "flo",
  "gus",
  "hal",
  "ida",
  "jan",
  "kim",
  "lee",
  "mia",
  "ned",
  "oda",
  "pat",
];
const DRAWS = 20;

export function Try() {
  const store = useStore();
  const run = store.run.value!;
  const { facts } = store.choice.value;
  const example = useMemo(() => exampleOf(run), [run]);
  const [text, setText] = useState(facts || example);
  const [seed, setSeed] = useState(0);
  const typed = useTyped(text, run);
  const attempt = useAttempt(run, typed.problem, seed);
  return (
    <div class="view try-view">
      <section class="card">
        <div class="card-head">
          <h2>Your own facts</h2>
          <div class="actions">
            <button type="button" class="quiet" onClick={() => put(swapped(text))}>
              Rename
            </button>
            <button type="button" class="quiet" onClick={() => put(example)}>
              Example
            </button>
          </div>
        </div>
        <textarea
          aria-label="Facts"
          aria-describedby="facts-told"
          spellcheck={false}
          rows={4}
          maxLength={4000}
          value={text}
          onInput={(event) => put(event.currentTarget.value)}
        />
        <p id="facts-told" class={typed.told ? "refusal" : "hint"} role="status">
          {typed.told ||
            `${typed.problem!.typed} of ${typed.problem!.sheet.n_chains} chains typed; the others are made up, and named ·1, ·2 …`}
        </p>
        {store.edited.value && <p class="hint">The model is asked as changed in the view Circuit.</p>}
      </section>
      {attempt.told && <p class="refusal card">{attempt.told}</p>}
      {attempt.found && typed.problem && (
        <>
          <Answers run={run} attempt={attempt.found} typed={typed.problem} again={() => setSeed(seed + 1)} />
          <Laid attempt={attempt.found} />
        </>
      )}
    </div>
  );

  function put(next: string): void {
    setText(next);
    store.choose({ facts: next === example ? "" : next.slice(0, 2000) });
  }
}

/** The first chains of a task's shape, in people's names. */
function exampleOf(run: Run): string {
  try {
    const { steps } = sheetOf(run);
    let used = 0;
    const chains = Array.from({ length: 2 }, () => {
      const names = new Map<string, string>();
      const of = (variable: string): string => {
        const known = names.get(variable) ?? NAMES[used++ % NAMES.length]!;
        names.set(variable, known);
        return known;
      };
      return steps.map(({ premises, conclusion }) => `${premises.map(of).join("+")}>${of(conclusion)}`).join(" ");
    });
    return chains.join("\n");
  } catch {
    return "ann>bob bob>cy";
  }
}

/** The same facts under other names: what a model that retrieves should not mind. */
function swapped(text: string): string {
  const names = [...new Set(text.match(/[^\s,;>→+-]+/gu) ?? [])];
  const others = names.map((one, i) => (NAMES.includes(one) ? `${"uvwxyz"[i % 6]}${i}` : NAMES[i % NAMES.length]!));
  return text.replace(/[^\s,;>→+-]+/gu, (one) => others[names.indexOf(one)] ?? one);
}

function useTyped(text: string, run: Run): { problem: Problem | null; told: string } {
  return useMemo(() => {
    try {
      return { problem: problem(text, run), told: "" };
    } catch (error) {
      return { problem: null, told: said(error) };
    }
  }, [text, run]);
}

function useAttempt(run: Run, typed: Problem | null, seed: number): { found: Attempt | null; told: string } {
  const store = useStore();
  const { step } = store.choice.value;
  const [state, setState] = useState<{ found: Attempt | null; told: string }>({ found: null, told: "" });
  const key = store.key.value;
  // the key holds the step and the changes
  useEffect(() => {
    if (!typed) return setState({ found: null, told: "" });
    const stop = new AbortController();
    const why = store.live.refusal(run, step);
    if (why) return setState({ found: null, told: why });
    const ask = { run: run.identity, step, change: store.change() };
    const wait = setTimeout(() => {
      store.live.attempt(store.manifest.value!, ask, typed, { n: DRAWS, seed, signal: stop.signal }).then(
        (found) => setState({ found, told: "" }),
        (error) => {
          if (!stop.signal.aborted) setState({ found: null, told: said(error) });
        },
      );
    }, 120);
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [typed, key, seed]);
  return state;
}

function Answers({ run, attempt, typed, again }: { run: Run; attempt: Attempt; typed: Problem; again: () => void }) {
  const queries = attempt.posed.sequences[0]!.queries;
  const chains = Array.from({ length: typed.typed }, (_, chain) => chain);
  return (
    <section class="card">
      <div class="card-head">
        <h2>What the model answers</h2>
        <div class="actions">
          <button type="button" onClick={again}>
            Draw again
          </button>
        </div>
      </div>
      <div class="answers">
        {chains.map((chain) => (
          <Chain
            key={chain}
            run={run}
            attempt={attempt}
            chain={chain}
            root={typed.names[typed.sheet.symbol(typed.sheet.steps[0]!.premises[0]!, chain)] ?? ""}
            shown={queries.indexOf(chain)}
          />
        ))}
      </div>
      <p class="hint">
        Large: the answer to the first draw, with how far off it is and what comes next. Small: how many of {DRAWS}{" "}
        draws of the same facts, in another order and with other symbols, are right.
      </p>
    </section>
  );
}

/** One query and the answer to each of its hops. */
function Chain({
  run,
  attempt,
  chain,
  root,
  shown,
}: {
  run: Run;
  attempt: Attempt;
  chain: number;
  root: string;
  shown: number;
}) {
  const hops = run.task.hop_names;
  const of = (draw: number, hop: number): Answered | undefined => {
    const query = attempt.posed.sequences[draw]!.queries.indexOf(chain);
    return attempt.answers[draw]!.find((one) => one.query === query && one.hop === hop);
  };
  const unit = run.task.kind === "token" ? "nats" : "away";
  return (
    <div class="chain">
      <span class="root">
        <bdi>{name(root, 24)}</bdi>
      </span>
      {hops.map((hop, i) => {
        const first = of(0, i);
        const right = attempt.answers.filter((_, draw) => {
          const one = of(draw, i);
          return one && one.named === one.right;
        }).length;
        if (!first || shown < 0) return null;
        const fine = first.named === first.right;
        return (
          <div key={hop} class={fine ? "answer fine" : "answer wrong"}>
            <span class="hop">{hop}</span>
            <b style={{ borderColor: hue(i + 1) }}>
              <bdi>{name(first.named, 24)}</bdi> <span aria-hidden="true">{fine ? "✓" : "✗"}</span>
              <span class="hidden">{fine ? "right" : `wrong, it is ${first.right}`}</span>
            </b>
            <small>
              {short(first.distance)} {unit}; next <bdi>{name(first.runner_up, 16)}</bdi>,{" "}
              {short(first.runner_up_distance)}
            </small>
            <small class="share">
              <span class="meter">
                <i style={{ width: `${(100 * right) / DRAWS}%`, background: hue(i + 1) }} />
              </span>
              {right} of {DRAWS}
            </small>
          </div>
        );
      })}
    </div>
  );
}

/** The first draw as the model sees it. */
function Laid({ attempt }: { attempt: Attempt }) {
  const { symbols, roles } = attempt.posed.sequences[0]!;
  return (
    <section class="card">
      <h2>As the model sees it</h2>
      <ol class="sequence">
        {symbols.map((symbol, position) => (
          <li key={String(position)} title={roles[position] ?? ""}>
            <b style={{ borderColor: hue(Math.max(0, symbolOf(roles[position]?.split(" ")[1] ?? ""))) }}>
              <bdi>{name(symbol, 10)}</bdi>
            </b>
            <small>{roles[position]?.split(" ")[1]}</small>
          </li>
        ))}
      </ol>
    </section>
  );
}
