/** What is said of a lesson: how long it takes, and why it learnt or did not. */
import { LEARNT, type Lesson, limit, within } from "./engine/lesson.ts";

const NUMBER = ["no", "one", "two", "three", "four"];
const hopsOf = (count: number): string => `${NUMBER[count] ?? count} ${count === 1 ? "hop" : "hops"}`;
const layersOf = (count: number): string => `${NUMBER[count] ?? count} ${count === 1 ? "layer" : "layers"}`;

/** How long it takes, before it begins. */
export function expected({ hops, prior }: Lesson): string {
  if (hops > 2) return "Three hops take a wider model: about a minute, or more without the prior.";
  if (!prior) return "As in the paper, without a prior: about a minute, most of it on a plateau.";
  return "With the prior: a few seconds.";
}

/** What is to be seen now, or has come of it. */
export function verdict(lesson: Lesson, losses: readonly number[], step: number, running: boolean): string {
  const { hops, layers, prior } = lesson;
  if (!step || !losses.length) return "";
  if (losses.every((loss) => loss < LEARNT)) {
    return `Learnt: after ${step} steps the loss of every hop is below ${LEARNT}.`;
  }
  const flat = losses.every((loss) => loss > 0.6);
  if (running || step < limit(lesson)) {
    if (!flat || step < 40) return "";
    return prior
      ? "The losses still lie where an answer without any fact lies."
      : "A plateau: the losses lie where an answer without any fact lies, 0.75, and wait for the first head.";
  }
  if (hops > within(layers)) return `Not learnt after ${step} steps. ${cannot(layers)}`;
  return `Not learnt after ${step} steps: not every beginning leads on. Go on, take another seed, or one layer more.`;
}

/** Why so few layers cannot, in the words of docs/theory.md and of the scene's tour. */
function cannot(layers: number): string {
  const can = within(layers);
  const why =
    layers === 1
      ? "One layer cannot: while the query looks, no position knows yet what came before it. "
      : `${layersOf(layers)[0]!.toUpperCase()}${layersOf(layers).slice(1)} cannot. `;
  return (
    `${why}In a layer a position attends to one with which it shares a piece, and then holds what that one holds. ` +
    `So after ${layersOf(layers)} the query reaches at most piece ${2 ** layers - 1} of its chain, and the answer ` +
    `after ${hopsOf(can + 1)} is piece ${2 * (can + 1)}. D hops take ⌈log₂(2D + 1)⌉ layers of one head: ` +
    `two for one hop, three for two or three.`
  );
}
