// `node parity.mjs FOLDER` bundles the commands of test/ into FOLDER: the engine as commands, for Python's
// tests and benchmarks, which hold it against PyTorch.
import { build } from "esbuild";
import { COMMON } from "./build.mjs";
import { kernel } from "./kernel.mjs";

await build({
  ...COMMON,
  minify: false,
  write: true,
  platform: "node",
  format: "esm",
  entryPoints: ["test/learning.ts", "test/parity.ts", "test/rendering.ts"],
  outdir: process.argv[2],
  outExtension: { ".js": ".mjs" },
  plugins: [kernel],
});
