/** A table that one may open: every map and drawing has one that says the same. */
import type { ComponentChildren } from "preact";

/** `head`: names of columns; those that begin with a blank hold numbers. `children`: rows. */
export function TableOf({
  head,
  summary = "As a table",
  children,
}: {
  head: readonly string[];
  summary?: string;
  children: ComponentChildren;
}) {
  return (
    <details class="table-of">
      <summary>{summary}</summary>
      <div class="scroller">
        <table>
          <thead>
            <tr>
              {head.map((name) => (
                <th key={name} scope="col" class={name.startsWith(" ") ? "num" : ""}>
                  {name.trim()}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      </div>
    </details>
  );
}
