/** View 4 for tasks that are no fact sheets: a sequence typed symbol by symbol, and what the model answers in it. */
import { useMemo, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import type { Answered, Attempt } from "../engine/live.ts";
import { exampleTokens, typedTokens } from "../engine/tokens.ts";
import { WayBack } from "../parts/losses.tsx";
import { Laid, Typing, useAttempt, useRead, useTyping } from "../parts/typing.tsx";
import { name, percent } from "../parts/words.ts";
import { useStore } from "../store.ts";

export function TryTokens() {
  const store = useStore();
  const run = store.run.value!;
  const typing = run.batch.typing;
  const free = typing.kind === "tokens" && typing.free;
  const example = useMemo(() => exampleTokens(run), [run.identity]);
  const [text, put] = useTyping(example);
  const [seed, setSeed] = useState(0);
  const typed = useRead(() => typedTokens(text, run, seed), [text, run.identity, seed]);
  const attempt = useAttempt(
    run,
    [typed.found],
    (ask, signal) => typed.found && store.live.sequence(store.manifest.value!, ask, typed.found, signal),
  );
  const alone = !store.live.knowsTasks;
  return (
    <div class="view try-view">
      <section class="card">
        <div class="card-head">
          <h2>Your own sequence</h2>
          <div class="actions">
            {free && (
              <button type="button" class="quiet" onClick={() => setSeed(seed + 1)}>
                Other tokens
              </button>
            )}
            <button type="button" class="quiet" onClick={() => put(example)}>
              Example
            </button>
          </div>
        </div>
        <Typing label="Sequence" text={text} put={put} told={typed.told} longest={60_000}>
          {`All ${run.task.n_positions} symbols of a sequence, with blanks between them. `}
          {free && "Words of your own stand for tokens that are drawn."}
        </Typing>
        {alone && (
          <p class="hint">
            {store.edited.value && "The model is asked as it is, without the changes of the view Circuit. "}
            This file does not know which answers are right: <code>hopscope explore RUN</code> does.
          </p>
        )}
        {!alone && store.edited.value && <p class="hint">The model is asked as changed in the view Circuit.</p>}
      </section>
      {attempt.told && (
        <div class="card">
          <p class="refusal">{attempt.told}</p>
          {store.refusal.value && <WayBack />}
        </div>
      )}
      {attempt.found && typed.found && (
        <>
          <Answers run={run} attempt={attempt.found} />
          <Laid attempt={attempt.found} />
        </>
      )}
    </div>
  );
}

/** A row for each position that asks, a column for each hop that some position asks. */
function Answers({ run, attempt }: { run: Run; attempt: Attempt }) {
  const answers = attempt.answers[0]!;
  const asked = answers.filter((one) => one.right !== null);
  const right = asked.filter((one) => one.named === one.right).length;
  const hops = run.task.hop_names.map((_, hop) => hop).filter((hop) => asked.some((one) => one.hop === hop));
  const shown = hops.length ? hops : run.task.scoring?.shared ? [0] : run.task.hop_names.map((_, hop) => hop);
  const [first] = run.task.query_positions;
  const queries = [...new Set((asked.length ? asked : answers).map((one) => one.query))];
  const at = (query: number, hop: number) => answers.find((one) => one.query === query && one.hop === hop);
  return (
    <section class="card">
      <div class="card-head">
        <h2>What the model answers</h2>
        {asked.length > 0 && (
          <p class="hint" role="status">
            {right} of {asked.length} right
          </p>
        )}
      </div>
      <div class="scroller">
        <table class="typed-answers">
          <thead>
            <tr>
              <th scope="col">after</th>
              {shown.map((hop) => (
                <th key={hop} scope="col">
                  {hops.length ? run.task.hop_names[hop] : "answer"}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {queries.map((query) => (
              <tr key={query}>
                <th scope="row">
                  <bdi>{name(attempt.sequences[0]!.symbols[first + query] ?? "", 24)}</bdi>{" "}
                  <small class="hint">position {first + query}</small>
                </th>
                {shown.map((hop) => (
                  <Cell key={hop} answer={at(query, hop)} known={asked.length > 0} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Cell({ answer, known }: { answer: Answered | undefined; known: boolean }) {
  if (!answer || (known && answer.right === null)) return <td>–</td>;
  const fine = answer.named === answer.right;
  return (
    <td class={!known ? "" : fine ? "fine" : "wrong"}>
      <b>
        <bdi>{name(answer.named, 24)}</bdi> {known && <span aria-hidden="true">{fine ? "✓" : "✗"}</span>}
      </b>
      {known && !fine && <span> it is {name(answer.right ?? "", 24)}</span>}
      {known && fine && <span class="hidden">right</span>}{" "}
      <small>
        {percent(Math.exp(-answer.distance))}; next <bdi>{name(answer.runner_up, 16)}</bdi>,{" "}
        {percent(Math.exp(-answer.runner_up_distance))}
      </small>
    </td>
  );
}
