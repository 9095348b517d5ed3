// Builds the page's files into hopscope/explorer/static/: page.js (served and exported pages), widget.js (notebooks) and
// page.css. The same sources and lock file give the same bytes; `--compare` builds beside them and says which differ.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { kernel } from "./kernel.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const STATIC = resolve(HERE, "../hopscope/explorer/static");
const GATE = 75 * 1024; // bytes of page.js and page.css together, gzipped

export const COMMON = {
  absWorkingDir: HERE,
  bundle: true,
  minify: true,
  write: false,
  charset: "utf8",
  target: ["es2022"],
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
};

// `import source from "inline:./worker.ts"` gives the worker, bundled, as text: a page from disk starts it from a blob.
export const inline = {
  name: "inline",
  setup(plugins) {
    plugins.onResolve({ filter: /^inline:/ }, (found) => ({
      path: join(found.resolveDir, found.path.slice("inline:".length)),
      namespace: "inline",
    }));
    plugins.onLoad({ filter: /.*/, namespace: "inline" }, async (found) => {
      const made = await build({ ...COMMON, entryPoints: [found.path], format: "iife", plugins: [kernel] });
      return { contents: made.outputFiles[0].text, loader: "text" };
    });
  },
};

const ENTRIES = [
  { entry: "src/page.tsx", file: "page.js", format: "iife" },
  { entry: "src/widget.tsx", file: "widget.js", format: "esm" },
  { entry: "src/page.css", file: "page.css" },
];

async function made() {
  const files = new Map();
  for (const { entry, file, format } of ENTRIES) {
    const result = await build({
      ...COMMON,
      entryPoints: [entry],
      plugins: [inline, kernel],
      ...(format ? { format } : {}),
    });
    files.set(file, Buffer.from(result.outputFiles[0].contents));
  }
  return files;
}

const zipped = (bytes) => gzipSync(bytes, { level: 9 }).length;

async function differing(files) {
  const names = [];
  for (const [name, bytes] of files) {
    const old = await readFile(join(STATIC, name)).catch(() => Buffer.alloc(0));
    if (!old.equals(bytes)) names.push(name);
  }
  return names;
}

async function main() {
  const files = await made();
  const size = zipped(files.get("page.js")) + zipped(files.get("page.css"));
  console.log(`page.js and page.css: ${(size / 1024).toFixed(1)} kB gzipped`);
  if (size > GATE) throw new Error(`that is over ${GATE / 1024} kB`);
  if (process.argv.includes("--compare")) {
    const names = await differing(files);
    if (names.length)
      throw new Error(`not what the sources give: ${names.join(", ")}; run \`make explorer\` and commit`);
    return;
  }
  await mkdir(STATIC, { recursive: true });
  for (const [name, bytes] of files) await writeFile(join(STATIC, name), bytes);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
