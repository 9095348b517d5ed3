/** The page, served or from disk: draws the explorer into #explorer. */
import { render } from "preact";

const root = document.getElementById("explorer");
if (root) render(<p>hopscope</p>, root);
