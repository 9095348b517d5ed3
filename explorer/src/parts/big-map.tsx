/** One head's attention, large enough to point at: rows are positions that attend, columns what they attend to. */
import type { Run } from "../bundle.ts";
import { useStore } from "../store.ts";
import { told } from "./example.ts";
import { Thumbnail as Pixels } from "./map.tsx";
import { name, roleOf, symbolOf, tone } from "./words.ts";

/** An entry of a pattern. */
export interface Spot {
  query: number;
  key: number;
  pinned: boolean;
}

export function BigMap({
  run,
  title,
  pattern,
  n,
  spot,
  set,
  signed = false,
}: {
  run: Run;
  title: string;
  pattern: ArrayLike<number>;
  n: number;
  spot: Spot | null;
  set: (spot: Spot | null) => void;
  signed?: boolean;
}) {
  const { inst } = useStore().choice.value;
  const instance = run.batch.instances[inst]!;
  const { symbols } = told(run, instance);
  const at = (event: MouseEvent): { query: number; key: number } => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const cell = (from: number, size: number): number => Math.min(n - 1, Math.max(0, Math.floor((from / size) * n)));
    return { query: cell(event.clientY - box.top, box.height), key: cell(event.clientX - box.left, box.width) };
  };
  const keyed = (event: KeyboardEvent): void => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Escape") set(null);
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const { query, key } = spot ?? { query: run.task.query_positions[0], key: 0 };
    const inside = (value: number): number => Math.min(n - 1, Math.max(0, value));
    set({ query: inside(query + by[0]!), key: inside(key + by[1]!), pinned: true });
  };
  const labelled = n <= 32;
  return (
    <figure class="big-map">
      <figcaption>{title}</figcaption>
      <div class="map-frame">
        {labelled && (
          <div class="map-rows" aria-hidden="true">
            {symbols.map((symbol, i) => (
              <span key={String(i)} style={{ color: tint(instance.roles[i]) }}>
                {name(symbol, 4)}
              </span>
            ))}
          </div>
        )}
        <div
          class="map-face"
          role="application"
          aria-label={`Attention of this head, ${title}: arrow keys go over its entries`}
          tabindex={0}
          onPointerMove={(event) => !spot?.pinned && set({ ...at(event), pinned: false })}
          onPointerLeave={() => !spot?.pinned && set(null)}
          onClick={(event) => set({ ...at(event), pinned: true })}
          onKeyDown={keyed}
        >
          <Pixels pattern={pattern} n={n} signed={signed} />
          {spot && (
            <i
              class={spot.pinned ? "spot pinned" : "spot"}
              style={{
                left: `${(100 * spot.key) / n}%`,
                top: `${(100 * spot.query) / n}%`,
                width: `${100 / n}%`,
                height: `${100 / n}%`,
              }}
            />
          )}
        </div>
        {labelled && (
          <div class="map-columns" aria-hidden="true">
            {symbols.map((symbol, i) => (
              <span key={String(i)} style={{ color: tint(instance.roles[i]) }}>
                {name(symbol, 4)}
              </span>
            ))}
          </div>
        )}
      </div>
    </figure>
  );
}

/** The colour of what a position holds, by the first of its roles. */
function tint(label: string | undefined): string {
  const role = roleOf(label);
  return role ? tone(Math.max(0, symbolOf(role))) : "var(--faint)";
}
