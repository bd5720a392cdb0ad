// Looks at the console in Chromium as a person with a client certificate would. One line of JSON a finding; {"ready"} after the last.
// node look.mjs <origin> <chromium> <cert> <key> <folder for pictures; "-": none, and no look at every view>
// Then commands come by stdin, a line each: {"wait": {page, selector, text}} answers {"seen"} once the text is there, {"read": {page, selector}}
// the {"texts"} of all that match; {"visit": {origin, cert, key, token, page, selector}} does the same in a browser of its own, whose person has that
// certificate, or types that token, and says what the browser keeps of it. {"stalls"} answers how long the page
// has been busy at most [ms], and what its heap is [bytes].
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [origin, executablePath, certPath, keyPath, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const say = (what) => console.log(JSON.stringify(what));
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

async function open(colorScheme, width) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, clientCertificates: [{ origin, certPath, keyPath }], colorScheme, reducedMotion: "reduce", viewport: { width, height: 800 } });
  await context.addInitScript("window.longest = 0; new PerformanceObserver((list) => { for (const one of list.getEntries()) longest = Math.max(longest, one.duration); }).observe({ type: 'longtask' });");
  const page = await context.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && say({ console: message.text() }));
  page.on("pageerror", (error) => say({ console: String(error) }));
  page.on("request", (request) => { if (new URL(request.url()).origin !== origin) say({ elsewhere: request.url() }); });
  await page.goto(origin + "/ui/");
  return { context, page };
}

async function visit({ origin, cert, key, token, page: name, selector }) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, clientCertificates: cert ? [{ origin, certPath: cert, keyPath: key }] : [] });
  const page = await context.newPage();
  await page.goto(`${origin}/ui/#/${name}`);
  if (token) {
    await page.locator("input[type=password]").fill(token);
    await page.keyboard.press("Enter");
  }
  await page.locator(selector).first().waitFor({ timeout: 15000 });
  const texts = await page.locator(selector).allInnerTexts();
  const kept = await page.evaluate("[document.cookie, localStorage.length, sessionStorage.length, location.href].join(' ')");
  await page.reload();
  if (token) await page.locator("input[type=password]").waitFor({ timeout: 15000 });
  await context.close();
  return { texts, kept };
}

const pages = { map: "[data-shard]", watches: "[data-id]", slices: "[data-slice]", path: "form", partitions: "[data-tuple]", workers: "[data-worker]", timeline: "h2" };
for (const [scheme, width] of folder === "-" ? [] : [["light", 1280], ["dark", 1280], ["light", 390], ["dark", 390]]) {
  const { context, page } = await open(scheme, width);
  for (const [name, selector] of Object.entries(pages)) {
    await page.goto(`${origin}/ui/#/${name}`);
    await page.locator(selector).first().waitFor({ timeout: 15000 });
    if (name === "map") await page.locator("[data-shard]").first().click();
    if (name === "watches") await page.locator("[data-id] button").first().click();
    if (name === "slices") await page.locator("summary").first().click();
    if (name === "path") { await page.locator("#filter").fill("root"); await page.keyboard.press("Enter"); await page.locator("#explained").waitFor(); }
    await page.screenshot({ path: `${folder}/${name}-${scheme}-${width}.png` });
    // As text: a script element is what Trusted Types forbid.
    const found = await page.evaluate(`${axe}; axe.run()`);
    for (const one of found.violations) say({ axe: one.id, page: name, scheme, width, nodes: one.nodes.slice(0, 2).map((node) => node.html.slice(0, 200)) });
    const wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    if (wide > 0) say({ wide, page: name, width });
  }
  await context.close();
}

const { page } = await open("light", 1280);
await page.locator("[data-shard]").first().waitFor();
await page.keyboard.press("ArrowRight");
await page.locator("h2:has-text('Watches')").waitFor();
await page.keyboard.press("/");
say({ focused: await page.evaluate("document.activeElement.id"), at: new URL(page.url()).hash });
say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { read, wait, visit: other, stalls } = JSON.parse(line);
  if (stalls) {
    say({ stalls: await page.evaluate("[Math.round(longest), performance.memory.usedJSHeapSize]") });
  } else if (wait) {
    await page.goto(`${origin}/ui/#/${wait.page}`);
    await page.locator(wait.selector, { hasText: wait.text }).first().waitFor({ timeout: 15000 });
    say({ seen: wait.text });
  } else if (other) {
    say({ visited: await visit(other) });
  } else {
    await page.goto(`${origin}/ui/#/${read.page}`);
    await page.locator(read.selector).first().waitFor({ timeout: 15000 });
    say({ texts: await page.locator(read.selector).allInnerTexts() });
  }
}
await browser.close();
