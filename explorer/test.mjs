// Runs test/*.test.ts: each is bundled into build/test/ and given to Node's own test runner. Names on the command line
// choose files: `node test.mjs engine` runs test/engine*.test.ts.
import { spawnSync } from "node:child_process";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { COMMON, inline } from "./build.mjs";
import { kernel } from "./kernel.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const all = (await readdir(join(HERE, "test")))
  .filter((name) => name.endsWith(".test.ts") || name.endsWith(".test.tsx"))
  .sort();
const names = wanted.length ? all.filter((name) => wanted.some((prefix) => name.startsWith(prefix))) : all;
await build({
  ...COMMON,
  minify: false,
  write: true,
  sourcemap: "inline",
  platform: "node",
  format: "esm",
  entryPoints: names.map((name) => `test/${name}`),
  outdir: "build/test",
  outExtension: { ".js": ".mjs" },
  plugins: [inline, kernel],
});
const files = names.map((name) => join(HERE, "build/test", name.replace(/\.tsx?$/, ".mjs")));
const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" });
process.exitCode = run.status ?? 1;
