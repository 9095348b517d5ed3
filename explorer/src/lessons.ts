/** What is said of a lesson: how long it takes, what cannot be, and why it learnt or did not. */
import { LEARNT, type Lesson, limit, within } from "./engine/lesson.ts";

const NUMBER = ["no", "one", "two", "three", "four"];
const hopsOf = (count: number): string => `${NUMBER[count] ?? count} ${count === 1 ? "hop" : "hops"}`;
const layersOf = (count: number): string => `${NUMBER[count] ?? count} ${count === 1 ? "layer" : "layers"}`;
const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

/** How long it takes on an idle machine, before it begins. */
export function expected({ hops, prior }: Lesson): string {
  if (hops > 2) return "Three hops take a wider model: about a minute, or more without the prior.";
  if (!prior) return "As in the paper, without a prior: about a minute, most of it on a plateau.";
  return "With the prior: some seconds where nothing else runs.";
}

/** That it will fail, before it begins; empty where it may learn. */
export function warning({ hops, layers }: Lesson): string {
  if (hops <= within(layers)) return "";
  const least = [1, 2, 3, 4].find((one) => within(one) >= hops)!;
  return `${capital(layersOf(layers))} cannot learn ${hopsOf(hops)}, which ${hops > 1 ? "take" : "takes"} at least ${layersOf(least)}. Train it, and see it fail.`;
}

/** What is to be seen now, or has come of it. `until`: to where a link has it trained again. */
export function verdict(lesson: Lesson, losses: readonly number[], step: number, running: boolean, until = 0): string {
  const { hops, layers, prior } = lesson;
  if (running && step < until) return `The link names step ${until}: the same model is trained again, from step 0.`;
  if (!step || !losses.length) return "";
  if (losses.every((loss) => loss < LEARNT)) {
    return `Learnt: after ${step} steps the loss of every hop is below ${LEARNT}. Go on for fewer errors.`;
  }
  const flat = losses.every((loss) => loss > 0.6);
  if (running || step < limit(lesson)) {
    if (!flat || step < 40) return "";
    if (hops > within(layers)) return `The losses do not fall. ${cannot(layers)}`;
    return prior
      ? "The losses still lie where an answer without any fact lies."
      : "A plateau: the losses lie where an answer without any fact lies, 0.75, and wait for the first head.";
  }
  if (hops > within(layers)) return `Not learnt after ${step} steps. ${cannot(layers)}`;
  return `Not learnt after ${step} steps: not every beginning leads on. Go on, take another seed, or one layer more.`;
}

/** Why so few layers cannot: docs/theory.md, on the tokens of one chain. */
function cannot(layers: number): string {
  const can = within(layers);
  const [last, answer] = [2 ** layers - 1, 2 * (can + 1)];
  const why =
    layers === 1
      ? "One layer cannot: while the query looks, no position knows yet what came before it. "
      : `${capital(layersOf(layers))} cannot. `;
  return (
    `${why}Number the tokens of a chain: the query ann is 0, its first fact (ann bob) is 1 and 2, the next (bob cy) ` +
    `3 and 4. The answer after D hops is token 2D. A position can read another with which it shares a symbol, so a ` +
    `layer at most doubles how many tokens it holds: after ${layersOf(layers)} the query holds at most token ` +
    `${last}, and ${hopsOf(can + 1)} would take token ${answer}.`
  );
}
