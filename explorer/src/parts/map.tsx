/** One head's attention on one sequence, a small square for each entry. */
import { useEffect, useRef } from "preact/hooks";

/** Paints a pattern (query by key, flat) at one pixel for each entry; CSS makes it as large as it should be. */
export function paint(canvas: HTMLCanvasElement, pattern: ArrayLike<number>, n: number, signed: boolean): void {
  if (canvas.width !== n) canvas.width = n;
  if (canvas.height !== n) canvas.height = n;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const image = pen.createImageData(n, n);
  const style = getComputedStyle(canvas);
  const [more, less] = [rgb(style.getPropertyValue("--map-more")), rgb(style.getPropertyValue("--map-less"))];
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

/** `#0072b2` as three numbers. */
function rgb(hex: string): [number, number, number] {
  const value = Number.parseInt(hex.trim().slice(1), 16) || 0;
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

export function Thumbnail({ pattern, n, signed = false }: { pattern: ArrayLike<number>; n: number; signed?: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const again = (): void => paint(element, pattern, n, signed);
    again();
    const root = element.closest(".hopscope-explorer");
    root?.addEventListener("hopscope-theme", again);
    return () => root?.removeEventListener("hopscope-theme", again);
  }, [pattern, n, signed]);
  return <canvas ref={canvas} class="map" width={n} height={n} aria-hidden="true" />;
}
