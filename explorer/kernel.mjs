// `import bytes from "kernel:"` gives the WebAssembly kernel, compiled from kernel/kernel.ts by AssemblyScript.
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";

const HERE = dirname(fileURLToPath(import.meta.url));
const SOURCE = "kernel/kernel.ts";
const OPTIONS = ["--runtime", "stub", "--noAssert", "--importMemory", "-O3", "--enable", "simd"];

let compiled; // once, however many bundles hold it

async function bytes() {
  let binary;
  const { error, stderr } = await asc.main([SOURCE, ...OPTIONS, "--outFile", "kernel.wasm"], {
    readFile: (name) => readFile(join(HERE, name), "utf8").catch(() => null),
    writeFile: (_, contents) => {
      binary = contents;
    },
    listFiles: () => [],
  });
  if (error) throw new Error(`the kernel does not compile: ${stderr.toString()}`);
  return binary;
}

export const kernel = {
  name: "kernel",
  setup(plugins) {
    plugins.onResolve({ filter: /^kernel:$/ }, () => ({ path: SOURCE, namespace: "kernel" }));
    plugins.onLoad({ filter: /.*/, namespace: "kernel" }, async () => {
      compiled ??= bytes();
      // Hexadecimal, not base64: whole bytes stay aligned, so that gzip finds what repeats (a kilobyte less).
      const digits = Buffer.from(await compiled).toString("hex");
      const read = `Uint8Array.from("${digits}".match(/../g), (byte) => Number("0x" + byte))`;
      return { contents: `export default /* @__PURE__ */ (() => ${read})();` };
    });
  },
};
