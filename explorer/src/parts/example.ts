/** Facts to begin with, in people's names. */
import type { Instance, Run } from "../bundle.ts";
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

/** A sequence in the scene's words: who is asked about first is ann, bob is one step from her, and roles name no chain. */
export function told({ batch, task }: Run, instance: Instance): Pick<Instance, "symbols" | "roles"> {
  const { symbols, roles, queries } = instance;
  const rank = (symbol: string): number => queries.findIndex((query) => query[0] === symbol[0]);
  const order = [...new Set(symbols)].sort(
    (one, other) => rank(one) - rank(other) || one.length - other.length || (one < other ? -1 : 1),
  );
  if (batch.typing.kind !== "facts" || task.settings.shape || order.length > NAMES.length) return instance;
  return {
    symbols: symbols.map((one) => NAMES[order.indexOf(one)]!),
    roles: roles.map((label) => label.replace(/^\S+ /, "")),
  };
}
