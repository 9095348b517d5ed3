// The explorer's pages in frames of this site are dark where the site is, whatever the system prefers.
function follow() {
  const theme = document.body.dataset.mdColorScheme === "slate" ? "dark" : "light";
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument?.getElementById("explorer"); // from disk one may not look into a frame
    if (!page) continue;
    page.dataset.theme = theme;
    page.dispatchEvent(new CustomEvent("hopscope-theme")); // maps are painted anew
  }
}
new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
for (const frame of document.querySelectorAll("iframe")) frame.addEventListener("load", follow);
follow();
