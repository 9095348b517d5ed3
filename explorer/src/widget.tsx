/** The notebook's widget (anywidget): the same page in a cell. */
import { render } from "preact";

export default {
  render({ el }: { el: HTMLElement }) {
    render(<p>hopscope</p>, el);
    return () => render(null, el);
  },
};
