/** What the two ways to type sequences share: the field, the model's answers while one types, and how it was laid out. */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import type { Attempt, LiveAsk } from "../engine/live.ts";
import { said, useStore } from "../store.ts";
import { hue, name, roleOf, symbolOf } from "./words.ts";

const IN_AN_ADDRESS = 2000; // characters
const PAUSE = 120; // milliseconds after the last key

/** The text in the field, which stands in the address unless it is the example. */
export function useTyping(example: string): [string, (text: string) => void] {
  const store = useStore();
  const { facts } = store.choice.value;
  const [text, setText] = useState(facts || example);
  useEffect(() => {
    if (facts && facts !== text.slice(0, IN_AN_ADDRESS)) setText(facts); // a link, or the browser's Back
  }, [facts]);
  const put = (next: string): void => {
    setText(next);
    store.choose({ facts: next === example ? "" : next.slice(0, IN_AN_ADDRESS) });
  };
  return [text, put];
}

/** What was typed as something to ask, or the sentence that says why not. */
export function useRead<T>(read: () => T, about: readonly unknown[]): { found: T | null; told: string } {
  return useMemo(() => {
    try {
      return { found: read(), told: "" };
    } catch (error) {
      return { found: null, told: said(error) };
    }
  }, [...about]);
}

/** The answers to what was typed, asked anew whenever it, the step or a change to attention is another. */
export function useAttempt(
  run: Run,
  about: readonly unknown[],
  answers: (ask: Omit<LiveAsk, "instance">, signal: AbortSignal) => Promise<Attempt> | null,
): { found: Attempt | null; told: string } {
  const store = useStore();
  const { step } = store.choice.value;
  const [state, setState] = useState<{ found: Attempt | null; told: string }>({ found: null, told: "" });
  useEffect(() => {
    const stop = new AbortController();
    const why = store.live.refusal(run, step);
    if (why) return setState({ found: null, told: why });
    const wait = setTimeout(() => {
      const asked = answers({ run: run.identity, step, change: store.change() }, stop.signal);
      if (!asked) return setState({ found: null, told: "" });
      asked.then(
        (found) => {
          if (!stop.signal.aborted) setState({ found, told: "" });
        },
        (error) => {
          if (!stop.signal.aborted) setState({ found: null, told: said(error) });
        },
      );
    }, PAUSE);
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [...about, store.key.value]); // which holds the step and the changes
  return state;
}

/** The field, and under it what is wrong with its text, or else what it comes to. */
export function Typing({
  label,
  text,
  put,
  told,
  longest,
  children,
}: {
  label: string;
  text: string;
  put: (text: string) => void;
  told: string;
  longest: number;
  children: ComponentChildren;
}) {
  return (
    <>
      <textarea
        aria-label={label}
        aria-describedby="typing-told"
        spellcheck={false}
        rows={4}
        maxLength={longest}
        value={text}
        onInput={(event) => put(event.currentTarget.value)}
      />
      <p id="typing-told" class={told ? "refusal" : "hint"} role="status">
        {told || children}
      </p>
    </>
  );
}

/** The first sequence as the model sees it. */
export function Laid({ attempt }: { attempt: Attempt }) {
  const { symbols, roles } = attempt.sequences[0]!;
  return (
    <section class="card">
      <h2>As the model sees it</h2>
      <ol class="sequence">
        {symbols.map((symbol, position) => (
          <li key={String(position)} title={roles[position] ?? ""}>
            <b style={{ borderColor: hue(Math.max(0, symbolOf(roleOf(roles[position])))) }}>
              <bdi>{name(symbol, 10)}</bdi>
            </b>
            <small>{roleOf(roles[position])}</small>
          </li>
        ))}
      </ol>
    </section>
  );
}
