/** The page, served or from disk: draws the explorer into #explorer, and keeps its state in the address. */
// The worker's text and the page's engine have modules in common, which gzip finds if they stand side by side.
import "./starting.ts";
import "./engine/live.ts";
import "./engine/lesson.ts";
import "./training.ts";

import { effect } from "@preact/signals";
import { render } from "preact";
import { App } from "./app.tsx";
import { fileSource, servedSource } from "./bundle.ts";
import { Store } from "./store.ts";

const root = document.getElementById("explorer");
if (root) {
  root.className = "hopscope-explorer";
  root.textContent = "";
  const store = new Store(fileSource(document) ?? servedSource());
  render(<App store={store} />, root);
  void store.open(location.hash);
  effect(() => {
    const address = store.address();
    if (address) keep(address);
  });
  addEventListener("hashchange", () => store.goTo(location.hash));
}

/** In some frames an address cannot be set; the page works without. */
function keep(address: string): void {
  try {
    history.replaceState(null, "", `#${address}`);
  } catch {
    // a frame made of text has no address
  }
}
