/** View 4: facts that a person types, posed to the model twenty times, each time in another order with other symbols. */
import { useMemo, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import type { Answered, Attempt } from "../engine/live.ts";
import { type Problem, problem } from "../engine/typed.ts";
import { exampleOf, NAMES } from "../parts/example.ts";
import { WayBack } from "../parts/losses.tsx";
import { Laid, Typing, useAttempt, useRead, useTyping } from "../parts/typing.tsx";
import { hue, name, short } from "../parts/words.ts";
import { useStore } from "../store.ts";
import { TryTokens } from "./try-tokens.tsx";

const DRAWS = 20;
const SURE = 18; // of these

export function Try() {
  const run = useStore().run.value!;
  const { typing } = run.batch;
  if (typing.kind === "none") return <p class="empty">{typing.told}</p>;
  return typing.kind === "tokens" ? <TryTokens key={run.identity} /> : <TryFacts key={run.identity} />;
}

function TryFacts() {
  const store = useStore();
  const run = store.run.value!;

  const example = useMemo(() => exampleOf(run), [run.identity]);
  const [text, put] = useTyping(example);
  const [seed, setSeed] = useState(0);
  const typed = useRead(() => problem(text, run), [text, run.identity]);
  const attempt = useAttempt(
    run,
    [typed.found, seed],
    (ask, signal) =>
      typed.found && store.live.attempt(store.manifest.value!, ask, typed.found, { n: DRAWS, seed, signal }),
  );
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
        <Typing label="Facts" text={text} put={put} told={typed.told} longest={4000}>
          {typed.found &&
            `${typed.found.typed} of ${typed.found.sheet.n_chains} chains typed; the others are made up, and named ·1, ·2 …`}
        </Typing>
        {store.edited.value && <p class="hint">The model is asked as changed in the view Circuit.</p>}
      </section>
      {attempt.told && (
        <div class="card">
          <p class="refusal">{attempt.told}</p>
          {store.refusal.value && <WayBack />}
        </div>
      )}
      {attempt.found && typed.found && (
        <>
          <Answers run={run} attempt={attempt.found} typed={typed.found} again={() => setSeed(seed + 1)} />
          <Laid attempt={attempt.found} />
        </>
      )}
    </div>
  );
}

/** The same facts under other names: what a model that retrieves should not mind. */
function swapped(text: string): string {
  const names = [...new Set(text.match(/[^\s,;>→+-]+/gu) ?? [])];
  const others = names.map((one, i) => (NAMES.includes(one) ? `${"uvwxyz"[i % 6]}${i}` : NAMES[i % NAMES.length]!));
  return text.replace(/[^\s,;>→+-]+/gu, (one) => others[names.indexOf(one)] ?? one);
}

function Answers({ run, attempt, typed, again }: { run: Run; attempt: Attempt; typed: Problem; again: () => void }) {
  const queries = attempt.sequences[0]!.queries;
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
        draws of the same facts, in another order and with other symbols, are right; a tick needs {SURE} of them.
      </p>
    </section>
  );
}

/** A tick is for what the model answers right in nearly all draws: one of them may be right by luck. */
function judged(first: Answered, right: number): [string, string] {
  if (first.named !== first.right) return ["✗", `wrong, it is ${first.right}`];
  return right >= SURE ? ["✓", "fine"] : ["?", "unsure, right in this draw alone or in a few"];
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
    const query = attempt.sequences[draw]!.queries.indexOf(chain);
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
        const [mark, verdict] = judged(first, right);
        return (
          <div key={hop} class={`answer ${verdict.split(",")[0]}`}>
            <span class="hop">{hop}</span>
            <b style={{ borderColor: hue(i + 1) }}>
              <bdi>{name(first.named, 24)}</bdi> <span aria-hidden="true">{mark}</span>
              <span class="hidden">{verdict}</span>
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
