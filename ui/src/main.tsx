import { render } from "preact";
import { useState } from "preact/hooks";
import { MapPage, PartitionsPage, PathPage, SlicesPage, WatchesPage } from "./pages";
import { connect, generated, needsToken, place, rows, setToken, trouble, viewer } from "./state";

const pages: Record<string, [string, () => any]> = { map: ["Map", MapPage], watches: ["Watches", WatchesPage], slices: ["Slices", SlicesPage], path: ["Path", PathPage], partitions: ["Partitions", PartitionsPage] };

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
  const Page = (pages[place.value.page] ?? pages.map)[1];
  return (
    <>
      <header>
        <h1>Kintsugi</h1>
        <span>{overview?.version}</span>
        <span>{viewer.value && <>for {viewer.value.user}</>}</span>
        <span role="status">{trouble.value ? <span class="bad">{trouble.value} Shown as of {generated.value || "never"}.</span>
          : wrong.length ? <span class="bad">✗ {wrong.map((one: any) => `${one.name}: ${one.reason}`).join("; ")}</span> : overview ? <span class="good">✓ all well</span> : "…"}</span>
      </header>
      <nav aria-label="Views"><ul>{Object.entries(pages).map(([name, [title]]) => <li><a href={"#/" + name} aria-current={name === place.value.page ? "page" : undefined}>{title}</a></li>)}</ul></nav>
      <main id="main" tabIndex={-1}>{needsToken.value ? <Token /> : <Page />}</main>
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
