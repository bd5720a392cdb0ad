// Builds ui/dist. --check: builds in memory and compares with what is there.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const check = process.argv.includes("--check");
const made = new Map();
const hashed = (name, end, bytes) => {
  const file = `${name}-${createHash("sha256").update(bytes).digest("hex").slice(0, 10)}.${end}`;
  made.set(file, Buffer.from(bytes));
  return file;
};
const common = { bundle: true, minify: true, write: false, target: "es2022", legalComments: "inline" };
const script = await build({ ...common, entryPoints: ["src/main.tsx"], format: "esm", jsx: "automatic", jsxImportSource: "preact" });
const style = await build({ ...common, entryPoints: ["src/style.css"] });
const names = {
  SCRIPT: hashed("app", "js", script.outputFiles[0].contents),
  STYLE: hashed("app", "css", style.outputFiles[0].contents),
  ICON: hashed("icon", "svg", readFileSync("src/icon.svg")),
};
let page = readFileSync("src/index.html", "utf8");
for (const [key, name] of Object.entries(names)) page = page.replaceAll(`%${key}%`, name);
made.set("index.html", Buffer.from(page));

const size = [...made.values()].reduce((sum, one) => sum + gzipSync(one).length, 0);
if (size > 60000) throw new Error(`${size} bytes gzip, at most 60000`);
mkdirSync("dist", { recursive: true });
if (check) {
  const there = readdirSync("dist").sort();
  const wrong = [...new Set([...there, ...made.keys()])].filter((name) => !made.has(name) || !existsSync(`dist/${name}`) || !made.get(name).equals(readFileSync(`dist/${name}`)));
  if (wrong.length) {
    console.error(`ui/dist is not what ui/src makes: ${wrong.join(", ")}; run "npm run build" in ui/`);
    process.exit(1);
  }
} else {
  rmSync("dist", { recursive: true });
  mkdirSync("dist");
  for (const [name, bytes] of made) writeFileSync(`dist/${name}`, bytes);
}
console.log(`ui: ${made.size} files, ${size} bytes gzip`);
