/** Canvases are painted with the page's colours, and again when these change: by the button, or with the system's. */
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Paints now, whenever one of `about` is another, and whenever light turns dark. */
export function usePainting(
  canvas: RefObject<HTMLCanvasElement | null>,
  paint: (canvas: HTMLCanvasElement) => void,
  about?: readonly unknown[],
): void {
  useEffect(
    () => {
      const element = canvas.current;
      if (!element) return;
      const again = (): void => paint(element);
      again();
      const [root, system] = [element.closest(".hopscope-explorer"), matchMedia("(prefers-color-scheme: dark)")];
      root?.addEventListener("hopscope-theme", again);
      system.addEventListener("change", again);
      return () => {
        root?.removeEventListener("hopscope-theme", again);
        system.removeEventListener("change", again);
      };
    },
    about as unknown[] | undefined,
  );
}

/** A colour of page.css, such as `--hue-1`, as `rgb(0, 114, 178)`: which of its two it is, only the element knows. */
export function colour(canvas: HTMLCanvasElement, variable: string): string {
  canvas.style.color = `var(${variable})`;
  return getComputedStyle(canvas).color;
}
