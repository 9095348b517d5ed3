/** One head's attention on one sequence, a small square for each entry. */
import { useRef } from "preact/hooks";
import { usePainting } from "./painting.ts";

/** Paints a pattern (query by key, flat) at one pixel for each entry; CSS makes it as large as it should be. */
export function paint(canvas: HTMLCanvasElement, pattern: ArrayLike<number>, n: number, signed: boolean): void {
  if (canvas.width !== n) canvas.width = n;
  if (canvas.height !== n) canvas.height = n;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const image = pen.createImageData(n, n);
  const style = getComputedStyle(canvas); // page.css puts the two colours of maps there
  const [more, less] = [rgb(style.color), rgb(style.caretColor)];
  for (let i = 0; i < n * n; i++) {
    const value = pattern[i] ?? 0;
    const [r, g, b] = signed && value < 0 ? less : more;
    image.data[4 * i] = r;
    image.data[4 * i + 1] = g;
    image.data[4 * i + 2] = b;
    image.data[4 * i + 3] = 255 * Math.min(1, Math.abs(value)) ** 0.8;
  }
  pen.putImageData(image, 0, 0);
}

/** `rgb(0, 114, 178)` as three numbers. */
function rgb(computed: string): [number, number, number] {
  const [r = 0, g = 0, b = 0] = (computed.match(/[\d.]+/g) ?? []).map(Number);
  return [r, g, b];
}

export function Thumbnail({ pattern, n, signed = false }: { pattern: ArrayLike<number>; n: number; signed?: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  usePainting(canvas, (element) => paint(element, pattern, n, signed), [pattern, n, signed]);
  return <canvas ref={canvas} class="map" width={n} height={n} aria-hidden="true" />;
}
