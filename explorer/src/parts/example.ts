/** Facts to begin with, in people's names. */
import type { Run } from "../bundle.ts";
import { sheetOf } from "../engine/sheet.ts";

export const NAMES =
  "ann bob cy dee eve flo gus hal ida jan kim lee mia ned oda pat quin ray sue tom una val wes yan zoe abe bea cal".split(
    " ",
  );

/** Facts of the first chains of a task's shape, one chain a line. */
export function exampleOf(run: Run, n_chains = 2): string {
  try {
    const { steps } = sheetOf(run);
    let used = 0;
    const chains = Array.from({ length: n_chains }, () => {
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
