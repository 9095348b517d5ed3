/** The notebook's widget (anywidget): the same page in a cell; its state is the trait `state`. */
import { effect } from "@preact/signals";
import { render } from "preact";
import { App } from "./app.tsx";
import { type NotebookModel, notebookSource } from "./bundle.ts";
import { Store } from "./store.ts";

export default {
  render({ model, el }: { model: NotebookModel; el: HTMLElement }) {
    const root = document.createElement("div");
    root.className = "hopscope-explorer in-cell";
    root.style.height = `${Number(model.get("height")) || 720}px`;
    el.append(root);
    const store = new Store(notebookSource(model));
    render(<App store={store} />, root);
    void store.open(String(model.get("state") ?? ""));
    const end = effect(() => {
      const address = store.address();
      if (!address || address === model.get("state")) return;
      model.set("state", address);
      model.save_changes();
    });
    const heard = (): void => store.goTo(String(model.get("state")));
    const sized = (): void => {
      root.style.height = `${Number(model.get("height")) || 720}px`;
    };
    model.on("change:state", heard);
    model.on("change:height", sized);
    return () => {
      model.off("change:state", heard);
      model.off("change:height", sized);
      end();
      store.stop();
      render(null, root);
      root.remove();
    };
  },
};
