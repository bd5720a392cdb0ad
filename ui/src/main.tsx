import { render } from "preact";
import { useState } from "preact/hooks";
import { MapPage, PartitionsPage, PathPage, SlicesPage, TimelinePage, WatchesPage, WorkersPage } from "./pages";
import { connect, generated, needsToken, place, rows, sees, setToken, trouble, viewer } from "./state";

/** Title, page, and the name that a right is asked for; with a box: of one logical cluster there may be something all the same. */
const pages: Record<string, [string, () => any, string, boolean?]> = {
  map: ["Map", MapPage, "shards"], watches: ["Watches", WatchesPage, "streams"], slices: ["Slices", SlicesPage, "slices", true], path: ["Path", PathPage, "explain"],
  partitions: ["Partitions", PartitionsPage, "partitions", true], workers: ["Workers", WorkersPage, "workers"], timeline: ["Timeline", TimelinePage, "events"],
};

function NotForYou({ title, name }: { title: string; name: string }) {
  return <><h2>{title}</h2><p data-hidden={name}>This is shown to whom rights in <code>root</code> let get <code>/ui/api/v1/{name}</code>.</p></>;
}

function Token() {
  const [text, setText] = useState("");
  return (
    <form onSubmit={(event) => { event.preventDefault(); setToken(text); }}>
      <label>Token<input type="password" autoComplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
      <button type="submit">Show</button>
    </form>
  );
}

function App() {
  const overview = rows.overview.value!.get("overview");
  const wrong = (overview?.checks ?? []).filter((one: any) => !one.ok);
  const [title, Page, name, hasBox] = pages[place.value.page] ?? pages.map;
  return (
    <>
      <header>
        <h1>Kintsugi</h1>
        <span>{overview?.version}</span>
        <span>{viewer.value && <>for {viewer.value.user}</>}</span>
        <span role="status">{trouble.value ? <span class="bad">{trouble.value} Shown as of {generated.value || "never"}.</span>
          : wrong.length ? <span class="bad">✗ {wrong.map((one: any) => `${one.name}: ${one.reason}`).join("; ")}</span> : overview?.checks ? <span class="good">✓ all well</span> : overview ? <span>{overview.ready ? "✓ ready" : "✗ not ready"}</span> : "…"}</span>
      </header>
      <nav aria-label="Views"><ul>{Object.entries(pages).map(([name, [title]]) => <li><a href={"#/" + name} aria-current={name === place.value.page ? "page" : undefined}>{title}</a></li>)}</ul></nav>
      <main id="main" tabIndex={-1}>{needsToken.value ? <Token /> : viewer.value && !hasBox && !sees(name) ? <NotForYou title={title} name={name} /> : <Page />}</main>
    </>
  );
}

const order = Object.keys(pages);
addEventListener("keydown", (event) => {
  if ((event.target as HTMLElement).closest("input, .scroll") || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = order.indexOf(place.peek().page);
  if (event.key === "/") { event.preventDefault(); document.getElementById("filter")?.focus(); }
  else if (event.key === "ArrowRight") location.hash = "#/" + order[(at + 1) % order.length];
  else if (event.key === "ArrowLeft") location.hash = "#/" + order[(at + order.length - 1) % order.length];
});
render(<App />, document.getElementById("app")!);
connect();
