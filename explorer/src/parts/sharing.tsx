/** A link to exactly this state, and the choice of light or dark. */
import { useState } from "preact/hooks";
import { useStore } from "../store.ts";

type Theme = "auto" | "light" | "dark";
const NEXT: Record<Theme, Theme> = { auto: "dark", dark: "light", light: "auto" };

export function Sharing() {
  const store = useStore();
  const [copied, setCopied] = useState("");
  const [theme, setTheme] = useState<Theme>("auto");
  const copy = async (): Promise<void> => {
    const link = `${location.href.split("#")[0]}#${store.address()}`;
    const done = await copyText(link);
    setCopied(done ? "Copied" : link);
    if (done) setTimeout(() => setCopied(""), 1600);
  };
  const turn = (event: Event): void => {
    const root = (event.currentTarget as Element).closest<HTMLElement>(".hopscope-explorer");
    const next = NEXT[theme];
    setTheme(next);
    if (root) root.dataset.theme = next;
    root?.dispatchEvent(new CustomEvent("hopscope-theme"));
  };
  return (
    <>
      {store.source.kind !== "notebook" && (
        <button type="button" class="quiet" onClick={copy}>
          {copied === "Copied" ? "Copied" : "Copy link"}
        </button>
      )}
      <button
        type="button"
        class="quiet icon"
        aria-label={`Colours: ${theme}; change`}
        title={`Colours: ${theme}`}
        onClick={turn}
      >
        <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
          <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5" />
          <path d={theme === "light" ? "" : "M8,2 a6,6 0 0 1 0,12z"} fill="currentColor" />
        </svg>
      </button>
      <span class="hidden" role="status">
        {copied === "Copied" ? "The link is copied." : ""}
      </span>
      {copied && copied !== "Copied" && (
        <input
          class="link"
          aria-label="Link to this state"
          readonly
          value={copied}
          onFocus={(e) => e.currentTarget.select()}
        />
      )}
    </>
  );
}

/** Where no clipboard is offered, as from disk in some browsers, the old way. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Offers a file for saving. */
export function save(name: string, kind: string, content: BlobPart): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
