/** The scene's tour: five paragraphs on a run's own circuit, each with what it takes away from the picture. */
import type { CircuitPath, Run } from "./bundle.ts";
import { CHAIN, nameOf } from "./engine/scene.ts";
import type { Problem } from "./engine/typed.ts";
import { nameOf as pathName } from "./parts/strengths.ts";

export interface Paragraph {
  title: string;
  text: string[];
  /** The layers that are spoken of; all where it is not said. */
  layers?: number[];
  off: string[];
}

export function paragraphs(run: Run, asked: Problem): Paragraph[] {
  const paths = run.circuit?.paths ?? [];
  const hops = run.task.hop_names.length;
  const names = Array.from({ length: hops + 1 }, (_, hop) => nameOf(asked, hop, CHAIN));
  const [x0, x1, x2] = names as [string, string, string];
  const joins = paths.filter(({ query, key }) => query.startsWith("value") && key === query.replace("value", "key"));
  const finds = paths.filter(({ query, key }) => query === "query" && key === "value[1]");
  const later = paths.filter((path) => !joins.includes(path) && !finds.includes(path));
  const layersOf = (some: readonly CircuitPath[]): number[] => [...new Set(some.map(({ layer }) => layer))];
  const dearest = paths.reduce<CircuitPath | null>(
    (most, one) => (!most || one.silenced_loss > most.silenced_loss ? one : most),
    null,
  );
  return [
    {
      title: "The question",
      text: [
        `Every fact is two tokens: ${x0} ${x1} says that ${x1} is one step from ${x0}. The facts of four people stand in shuffled order, and the query ${x0} stands at the end. The model sees the whole sequence once. It must answer who is one step away, and two${hops > 2 ? ", and so on" : ""}.`,
        "A layer lets each position look at others and copy from them. That is all it can use to find a fact.",
      ],
      off: [],
    },
    {
      title: "First, the tokens of a fact meet",
      text: [
        `In the first layer the second token of a fact attends to the first. So ${x1} now also holds ${x0}: see the name that appears on its line. It is marked as “what follows ${x0}”.`,
        "Such a head is called a previous-token head.",
      ],
      layers: layersOf(joins),
      off: [],
    },
    {
      title: "Then the query finds its fact",
      text: [
        `The query holds ${x0}. In a later layer it attends to the position that was marked with ${x0}, and copies what stands there: ${x1}. A head that finds what followed its own symbol before is an induction head.`,
        "It needs the mark of the layer below. One layer cannot do it: while the query looks, no position knows yet what came before it. This is why one hop takes two layers.",
      ],
      layers: layersOf(finds),
      off: [],
    },
    {
      title: "Hops are stacked",
      text: [
        `For two steps a position needs what an earlier look has fetched. Some layer up, the query looks for ${x1} as it looked for ${x0}, and finds ${x2}; or facts join into longer pieces before the query reads them. Either way each hop stands on one below it, and follows it in training.`,
      ],
      layers: layersOf(later),
      off: [],
    },
    {
      title: "Take one arrow away",
      text: [
        dearest
          ? `Here ${dearest.query} no longer attends to ${dearest.key} in layer ${dearest.layer} (${pathName(dearest)}): its attention is spread evenly, and the rest of the model runs as before. See what the positions above it hold now, and what the model answers. Press “Put all arrows back”, and click any other.`
          : "Click an arrow to knock it out, and see what the model answers.",
        "The lab, in the tabs above, has the whole run: its training, every head, and every path.",
      ],
      off: dearest ? [pathName(dearest)] : [],
    },
  ];
}
