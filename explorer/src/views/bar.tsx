/** A share as a bar, from 0 to 1. */
export function Bar({ value, colour }: { value: number; colour: string }) {
  const width = 60 * Math.max(0, Math.min(1, value));
  return (
    <svg class="bar" width="60" height="10" viewBox="0 0 60 10" aria-hidden="true">
      <line class="grid" x1="0" x2="60" y1="9.5" y2="9.5" />
      <rect x="0" y="1" width={width} height="8" fill={colour} />
    </svg>
  );
}
