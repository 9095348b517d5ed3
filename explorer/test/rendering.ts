// Typed facts' rendering as a command: reads cases (JSON: a run's task, and draws) and prints the batches (JSON).
import { readFileSync } from "node:fs";
import type { Run } from "../src/bundle.ts";
import { generator } from "../src/engine/random.ts";
import { type Drawn, rendered, sheetOf, shuffled } from "../src/engine/sheet.ts";
import { posed, problem } from "../src/engine/typed.ts";

interface Case {
  run: Run;
  drawn: Drawn[];
  orders?: number;
  typed?: { text: string; n: number; seed: number };
}

function answered({ run, drawn, orders, typed }: Case): unknown {
  try {
    const sheet = sheetOf(run);
    const random = generator(0);
    if (orders) return { orders: Array.from({ length: orders }, () => shuffled(sheet, random)) };
    if (!typed) return { batch: rendered(run, sheet, drawn) };
    const found = problem(typed.text, run);
    const pose = posed(found, run, typed.n, typed.seed);
    const { asked = [] } = pose.batch;
    const wide = asked.length / typed.n;
    const answers = Array.from({ length: typed.n }, (_, of) =>
      Array.from(asked.slice(of * wide, (of + 1) * wide), (symbol) => found.names[symbol]),
    );
    return { ...pose, names: found.names, typed: found.typed, answers };
  } catch (error) {
    return { refused: error instanceof Error ? error.message : String(error) };
  }
}

const cases = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as Case[];
console.log(
  JSON.stringify(cases.map(answered), (_, value) =>
    ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value,
  ),
);
