/** The scene's tour: some paragraphs on a run's own circuit, each with what it lights and takes away in the picture. */
import type { CircuitPath, Run } from "./bundle.ts";
import { FIRST, type Lesson } from "./engine/lesson.ts";
import { CHAIN, nameOf } from "./engine/scene.ts";
import type { Problem } from "./engine/typed.ts";
import { nameOf as pathName } from "./parts/strengths.ts";
import { DOUBLED, hopByHop, JOINED, listed, type Routes, reading, routesOf, type Wire } from "./routes.ts";

export interface Paragraph {
  title: string;
  text: string[];
  /** The arrows that are spoken of; none: all. */
  lit?: readonly string[];
  off?: string[];
  /** What is drawn in the model's place, where it does not do what is told. */
  sketch?: readonly Wire[];
  /** What may be trained to see it. */
  lesson?: Lesson;
}

interface Told {
  routes: Routes<CircuitPath>;
  /** Names of the chain, from the query's own. */
  names: string[];
}

const SKETCH = "A sketch, in which nothing can be clicked.";
const DOUBLING =
  "Either way a step stands on what a layer below has done. In a layer, the tokens that a position holds of its chain at most double, and a step is two tokens: two layers can do one step, three layers three, four layers seven.";

export function paragraphs(run: Run, asked: Problem): Paragraph[] {
  const paths = run.circuit?.paths ?? [];
  const hops = asked.sheet.steps.length;
  const names = Array.from({ length: hops + 1 }, (_, hop) => nameOf(asked, hop, CHAIN));
  const told = { routes: routesOf(paths), names };
  const first = [meet(told, asked), find(told), cannot(told, paths)];
  if (hops < 2) return first;
  const all = [...first, again(told), joined(told), ...(hops > 2 ? [doubled(told)] : [])];
  all.at(-1)!.text.push(DOUBLING, "Now train a model, or go back and take this one apart.");
  return all;
}

function meet({ routes, names }: Told, { sheet }: Problem): Paragraph {
  const [x0, x1] = names;
  const facts = sheet.n_chains * sheet.steps.length;
  const own = routes.joins.find(({ query }) => query === "value[1]");
  const met = own
    ? `Here ${reading(own)}. So ${x1} (value[1]) now also holds ${x0}: see the name on its line. It is marked as what follows ${x0}. Such a head is called a previous-token head.`
    : "In this model's circuit no single arrow does that.";
  return {
    title: "The two tokens of a fact meet",
    text: [
      `Every fact is two tokens, a key and a value: ${x0} ${x1} says that ${x1} is one step from ${x0}. The ${facts} facts about ${facts + sheet.n_chains} people stand in shuffled order; at the end stand ${sheet.n_chains} queries, ${x0} among them. The model sees it all at once.`,
      `In a layer every position can read others and copy what they hold. ${met}`,
    ],
    lit: routes.joins.map(pathName),
  };
}

function find({ routes, names }: Told): Paragraph {
  const [x0, x1] = names;
  const finds = routes.finds.slice(0, 1);
  const found = finds.length
    ? `Here ${listed(finds.map(reading))}, the position that is marked with ${x0}, and copies what stands there: ${x1}.`
    : `In this model's circuit no single arrow from ${x1} to the query does that.`;
  return {
    title: "The query finds its fact",
    text: [
      `The query holds ${x0}. ${found}`,
      "A head that looks for its own symbol earlier in the sequence, and copies what followed it, is an induction head. It needs the mark that a layer below has made.",
    ],
    lit: [...routes.joins.filter(({ query }) => query === "value[1]"), ...finds].map(pathName),
  };
}

function cannot({ routes, names }: Told, paths: readonly CircuitPath[]): Paragraph {
  const [x0, x1] = names;
  const dearest = [...paths].sort((one, two) => two.silenced_loss - one.silenced_loss)[0];
  const victim = routes.joins.find(({ query }) => query === "value[1]") ?? dearest;
  const taken = victim
    ? `Here ${victim.query} no longer reads ${victim.key} (L${victim.layer}H${victim.head} is off there: its attention is spread evenly). See what the positions above hold now. What is still right is a guess: shuffle and ask again.`
    : "Click an arrow to knock it out, and see what the model answers.";
  return {
    title: "One layer cannot",
    text: [
      taken,
      `All positions of a layer read at the same time. While the query of a one-layer model looks for ${x0}, ${x1} does not know yet what came before it: no position is marked. So one step takes two layers.`,
    ],
    off: victim ? [pathName(victim)] : [],
    lesson: { ...FIRST, hops: 1, layers: 1 },
  };
}

function again({ routes, names }: Told): Paragraph {
  const [x0, x1, x2] = names;
  const hops = names.length - 1;
  const own = routes.again.some(({ key }) => key === "value[2]") ? routes.again : [];
  const looks = own.filter(({ key }) => key === "value[2]");
  const twice = looks.length > 1 ? ` Layers ${listed(looks.map(({ layer }) => String(layer)))} do the same here.` : "";
  const way = `The query has ${x1} from its first look. In a later layer it looks for ${x1}, as it looked for ${x0}, and finds ${x2}${hops > 2 ? "; and so on, a step in each layer" : ""}.`;
  return {
    title: "Two steps: the query reads again",
    text: own.length
      ? [`${way} Here ${listed(own.map(reading))}.${twice}`, "This is the way that this model has learned."]
      : [way, `${SKETCH} This model finds ${x2} in another way.`],
    lit: [...routes.joins, ...own].map(pathName),
    ...(own.length ? {} : { sketch: hopByHop(hops) }),
  };
}

function joined({ routes, names }: Told): Paragraph {
  const [x0, x1, x2] = names;
  const own = routes.joined;
  const later = own.length ? routes.again.filter(({ key }) => key > "value[2]") : [];
  const more = later.length ? ` Then ${listed(later.map(reading))}.` : "";
  const way = `value[1] holds ${x0} and ${x1}, value[2] holds ${x1} and ${x2}. They share ${x1}, so one can read the other and then holds both facts. The query can read both names from it in one look.`;
  return {
    title: "Or: facts join first",
    text: [
      own.length
        ? `${way} Here ${listed(own.map(reading))}. This is the way that this model has learned.${more}`
        : `${way} ${SKETCH} This model finds ${x2} in another way. The one to train here with seed 0 finds ${x2} this way.`,
    ],
    lit: [...routes.joins, ...own, ...later].map(pathName),
    ...(own.length ? {} : { sketch: JOINED }),
  };
}

function doubled({ names }: Told): Paragraph {
  const [, x1, x2, x3] = names;
  return {
    title: "Three steps in three layers",
    text: [
      `While the query finds ${x1}, value[2], which holds ${x1} and ${x2}, reads value[3], which holds ${x2} and ${x3}. In the next layer the query looks for ${x1}, and reads ${x2} and ${x3} in one look.`,
      SKETCH,
    ],
    sketch: DOUBLED,
  };
}
