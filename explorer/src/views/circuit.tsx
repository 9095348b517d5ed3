/** View 2: the circuit, live. Any path can be knocked out or held ideal; the losses say what that costs. */
import { Diagram } from "../parts/diagram.tsx";
import { LossPanel } from "../parts/losses.tsx";
import { PathList } from "../parts/path-list.tsx";
import { save } from "../parts/sharing.tsx";
import { useStrengths } from "../parts/strengths.ts";
import { useStore } from "../store.ts";
import { HowToRead } from "./scene.tsx";

export function CircuitView() {
  const store = useStore();
  const run = store.run.value!;
  const { step, hand } = store.choice.value;
  const strengths = useStrengths(run);
  return (
    <div class="view circuit-view">
      <section class="card">
        <div class="card-head">
          <h2>Circuit</h2>
          <div class="actions">
            <button type="button" class="quiet" disabled={!store.undoable.value.length} onClick={() => store.undo()}>
              Undo
            </button>
            <button type="button" class="quiet" disabled={!store.edited.value} onClick={() => store.reset()}>
              Reset
            </button>
            <label class="switch">
              <input type="checkbox" checked={hand} onChange={() => store.edit({ hand: !hand })} />
              <span>Everything by hand</span>
            </label>
            <button type="button" class="quiet" onClick={(event) => saveSvg(event, run.name)}>
              SVG
            </button>
          </div>
        </div>
        <Diagram run={run} strengths={strengths} step={step} />
        <HowToRead>
          On an arrow stands its mean attention. Dashed grey: a path outside the circuit. “Without”: the loss of the
          circuit alone, all else null, once that path is left out.
        </HowToRead>
      </section>
      <div class="side">
        <LossPanel />
        <PathList run={run} strengths={strengths.get(step)} />
      </div>
    </div>
  );
}

/** The drawing with its colours in it, for there is no style sheet where it goes. */
function saveSvg(event: MouseEvent, run: string): void {
  const drawing = (event.currentTarget as Element).closest(".card")?.querySelector("svg.diagram");
  if (!drawing) return;
  const copy = drawing.cloneNode(true) as SVGElement;
  const [from, to] = [drawing.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const key of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family"]) {
      to[i]!.setAttribute(key, style.getPropertyValue(key));
    }
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  save(`${run}-circuit.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
}
