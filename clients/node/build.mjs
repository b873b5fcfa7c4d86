// Builds dist/ with the TypeScript compiler; nothing else is done to the sources.
import { execFileSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";

const here = new URL(".", import.meta.url).pathname;
const compiler = createRequire(import.meta.url).resolve("typescript/package.json").replace(/package\.json$/, "bin/tsc");
rmSync(`${here}dist`, { recursive: true, force: true });
execFileSync(process.execPath, [compiler, "-p", here], { stdio: "inherit" });
copyFileSync(`${here}../../LICENSE`, `${here}LICENSE`); // a package carries its own
