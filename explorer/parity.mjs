// `node parity.mjs FOLDER` bundles test/parity.ts into FOLDER/parity.mjs: the engine as a command, for Python's tests and
// benchmarks, which hold it against PyTorch.
import { build } from "esbuild";
import { COMMON } from "./build.mjs";
import { kernel } from "./kernel.mjs";

await build({
  ...COMMON,
  write: true,
  platform: "node",
  format: "esm",
  entryPoints: ["test/parity.ts"],
  outdir: process.argv[2],
  outExtension: { ".js": ".mjs" },
  plugins: [kernel],
});
