import { useEffect, useState } from "preact/hooks";
import { ask, place, rows, seesAll, sees, setParam, type Row } from "./state";
import { Filter, filtered, Table } from "./table";

const list = (view: keyof typeof rows) => [...rows[view].value!.values()];
const word = (shard: Row) => (!shard.up ? "✗ away" : shard.ready ? "✓ up" : "… listing");
const tone = (good: boolean) => (good ? "good" : "bad");
const Facts = ({ of }: { of: [string, any][] }) => <dl>{of.map(([name, value]) => <><dt>{name}</dt><dd>{value === "" || value == null ? "–" : String(value)}</dd></>)}</dl>;

/** For whom may not see those of all logical clusters. */
function ClusterBox({ name }: { name: string }) {
  const [text, setText] = useState(place.value.params.get("cluster") ?? "");
  if (seesAll(name)) return null;
  return (
    <form onSubmit={(event) => { event.preventDefault(); setParam("cluster", text.trim()); }}>
      <label>Logical cluster or workspace path<input id="cluster" value={text} maxLength={1000} onInput={(event) => setText(event.currentTarget.value)} placeholder="root:org" /></label>
      <button type="submit">Show</button>
      {place.value.params.get("cluster") && !sees(name) && <p class="bad" role="status">There is nothing there that you may list.</p>}
    </form>
  );
}

export function MapPage() {
  const overview = rows.overview.value!.get("overview");
  const shards = filtered(list("shards"), place.value.params.get("filter") ?? "");
  const chosen = rows.shards.value!.get(place.value.params.get("shard") ?? "");
  const regions = [...new Set(shards.map((shard) => shard.region as string))].sort();
  const days = overview?.leastCertificate?.days;
  return (
    <>
      <h2>Map</h2>
      {overview?.shards && <dl class="tiles" aria-live="polite">
        {([["Shards up", `${overview.shards.up} of ${overview.shards.total}`], ["Clusters", overview.clusters], ["Watches", overview.watches], ["Requests/s", overview.requestsPerSecond ?? "–"],
          ["Errors/s", overview.errorsPerSecond ?? "–"], ["p99", overview.p99Seconds == null ? "–" : `≤ ${overview.p99Seconds} s`], ["Certificate", days == null ? "–" : `${days} days`]] as [string, any][]).map(([name, value]) => <div><dt>{name}</dt><dd data-tile={name}>{value}</dd></div>)}
      </dl>}
      {list("shards").length > 60 && <Filter label="Filter shards" />}
      <div class={shards.length > 60 ? "regions compact" : "regions"}>
        {regions.map((region) => (
          <section aria-label={region || "no region"}><h3>{region || "no region"}</h3>
            <ul class="shards">{shards.filter((shard) => shard.region === region).map((shard) => (
              <li key={shard.id}><button data-shard={shard.id} aria-pressed={shard.id === chosen?.id} onClick={() => setParam("shard", shard.id === chosen?.id ? "" : shard.id)}>
                <strong>{shard.name}</strong> <span class={tone(shard.up)}>{word(shard)}</span>
                <span class="more">{shard.clusters} clusters, {shard.watches + shard.mergedStreams} watches</span>
                <span class="more">lag {shard.lagSeconds} s{shard.certificateDays != null && `, certificate ${shard.certificateDays} days`}</span>
              </button></li>))}</ul>
          </section>))}
      </div>
      {chosen && <aside aria-label={"shard " + chosen.name}><h3>{chosen.name}: <span class={tone(chosen.up)}>{word(chosen)}</span></h3>
        <Facts of={[["Cause", chosen.cause], ["Base URL", chosen.urls?.base], ["External URL", chosen.urls?.external], ["Virtual workspaces", chosen.urls?.virtual], ["Forwarded watches", chosen.watches],
          ["Merged streams, their readers", `${chosen.mergedStreams}, ${chosen.readers}`], ["Queues", `${chosen.queueBytes} bytes`], ["Requests/s, errors/s", `${chosen.requestsPerSecond}, ${chosen.errorsPerSecond}`],
          ["Labels", Object.entries(chosen.labels).map((one) => one.join("=")).join(", ")],
          ["Listed", Object.entries(chosen.resources ?? {}).map(([name, one]: [string, any]) => `${name} ${one.objects}${one.synced ? "" : " (not complete)"}`).join(", ")]]} />
        <button onClick={() => setParam("shard", "")}>Close</button></aside>}
    </>
  );
}

export function WatchesPage() {
  const all = list("streams");
  const open = rows.streams.value!.get(place.value.params.get("row") ?? "");
  const overview = rows.overview.value!.get("overview");
  const last = overview?.lastEviction;
  return (
    <>
      <h2>Watches</h2>
      {overview?.evictions && <p>Ended before their time: {Object.entries(overview.evictions).map(([reason, count]) => `${reason} ${count}`).join(", ")}; <span id="last-eviction">{last ? `the last at ${time(last.at)}: ${last.reason}` : "none of late"}</span></p>}
      <Filter label="Filter watches" />
      <Table caption="watches" all={all} open={(row) => setParam("row", row.id)} columns={[
        { field: "path", title: "Path" }, { field: "kind", title: "Kind" }, { field: "user", title: "User" }, { field: "cluster", title: "Cluster" }, { field: "readers", title: "Readers" },
        { field: "queueBytes", title: "Queue" }, { field: "shards", title: "Shards", value: (row) => row.shards.length }]} />
      {open && <aside aria-label="watch"><h3><code>{open.path}</code></h3>
        <Facts of={[["Kind", open.kind], ["User", open.user], ["Route", open.route], ["Share", open.share], ["Readers", open.readers], ["Queue", `${open.queueBytes} bytes`], ["Loop", open.loop]]} />
        <table><thead><tr><th scope="col">Shard</th><th scope="col">State</th><th scope="col">Position</th><th scope="col">Silent</th></tr></thead>
          <tbody>{open.shards.map((one: any) => <tr><th scope="row">{one.name}</th><td>{one.state ?? "–"}</td><td>{one.position ?? "–"}</td><td>{one.silentSeconds ? one.silentSeconds + " s" : "–"}</td></tr>)}</tbody></table>
        <button onClick={() => setParam("row", "")}>Close</button></aside>}
    </>
  );
}

const time = (text: string) => text.replace("T", " ").slice(0, 19);
const yes = (value: boolean) => (value ? "yes" : "no");
export function SlicesPage() {
  const all = filtered(list("slices"), place.value.params.get("filter") ?? "");
  const clusters = [...new Set(all.map((one) => one.cluster as string))].sort();
  return (
    <>
      <h2>Slices</h2>
      <ClusterBox name="slices" />
      <Filter label="Filter slices" />
      <p aria-live="polite">{all.length} slices</p>
      {clusters.map((cluster) => <section aria-label={"cluster " + cluster}><h3>Cluster {cluster}</h3>
        {all.filter((one) => one.cluster === cluster).map((slice) => (
          <details key={slice.id} data-slice={slice.id}><summary>{slice.name}: {slice.export}, {slice.endpoints.length} endpoints</summary>
            <Facts of={[["Partition", slice.partition], ["Selector", slice.selector], ["Mode", slice.mode]]} />
            <ul>{slice.endpoints.map((one: any) => <li><code>{one.url}</code> <button onClick={() => navigator.clipboard?.writeText(one.url)} aria-label={"copy " + one.url}>copy</button></li>)}</ul>
            <ul>{slice.conditions.map((one: any) => <li>{one.type}: <span class={tone(one.status === "True")}>{one.status}</span> {one.reason} {one.message}</li>)}</ul>
            <div class="scroll" tabIndex={0} role="region" aria-label={"shards of " + slice.name}><table><thead><tr>{["Shard", "Selected", "Effective", "Contacted", "Why not"].map((one) => <th scope="col">{one}</th>)}</tr></thead>
              <tbody>{slice.shards.map((one: any) => <tr><th scope="row">{one.shard}</th><td>{yes(one.selected)}</td><td>{yes(one.effective)}</td><td>{yes(one.contacted)}</td><td>{one.why ?? "–"}</td></tr>)}</tbody></table></div>
          </details>))}</section>)}
    </>
  );
}

export function PartitionsPage() {
  const all = list("partitions");
  const sets = list("sets");
  const own = all.filter((one) => !sets.some((set) => set.cluster === one.cluster && set.name === one.set));
  return (
    <>
      <h2>Partitions</h2>
      <ClusterBox name="partitions" />
      <p aria-live="polite">{sets.length} sets, {all.length} partitions</p>
      {sets.map((set) => <section aria-label={"set " + set.name} data-set={set.id}><h3>Set {set.name} <span class="soft">{set.cluster}</span></h3>
        <p>By {set.dimensions.join(", ") || "nothing"}{set.selector && <>, of <code>{set.selector}</code></>}{set.fault && <>: <span class="bad">{set.fault}</span></>}</p>
        <ul>{set.conditions.map((one: any) => <li>{one.type}: <span class={tone(one.status === "True")}>{one.status}</span> {one.reason} {one.message}</li>)}</ul>
        <table><thead><tr><th scope="col">Partition</th><th scope="col">Shards</th></tr></thead>
          <tbody>{set.partitions.map((one: any) => <tr data-tuple={one.name}><th scope="row">{one.name}</th><td>{one.shards.join(", ") || "no shard"}</td></tr>)}</tbody></table></section>)}
      {own.length > 0 && <section aria-label="no set"><h3>Of no set</h3>
        <ul>{own.map((one) => <li key={one.id} data-partition={one.id}><strong>{one.name}</strong> <span class="soft">{one.cluster}</span> <code>{one.selector || "everything"}</code>: {one.fault ? <span class="bad">{one.fault}</span> : one.shards.join(", ") || "no shard"}</li>)}</ul></section>}
    </>
  );
}

export function WorkersPage() {
  const all = list("workers");
  const most = (role: string) => Math.max(1, all.filter((one) => one.role === role).reduce((sum, one) => sum + (one.partitions ?? 0), 0));
  return (
    <>
      <h2>Workers</h2>
      <p aria-live="polite">{all.length ? `${all.length} of this machine` : "The configuration names none (ui.workers)."}</p>
      {all.length > 0 && <div class="scroll" tabIndex={0} role="region" aria-label="workers"><table>
        <thead><tr>{["Worker", "Role", "State", "Endpoints", "Queue", "Ring", "Partitions of it", "Journal"].map((one) => <th scope="col">{one}</th>)}</tr></thead>
        <tbody>{all.map((one) => <tr key={one.id} data-worker={one.id}><th scope="row">{one.instance}</th><td>{one.role || "–"}</td>
          <td><span class={tone(one.ready)}>{one.ready ? "✓ ready" : `✗ ${one.reason}`}</span></td><td>{one.units ?? "–"}</td><td>{one.queue ?? "–"}</td>
          <td>{one.generation ? `generation ${one.generation}${one.coordinates ? ", coordinates" : ""}` : "–"}</td>
          <td>{one.partitions != null && <><meter min={0} max={most(one.role)} value={one.partitions} aria-label={`partitions of ${one.instance}`} /> {one.partitions}</>}</td>
          <td>{one.journalBytes ? `${one.journalBytes} bytes` : "–"}</td></tr>)}</tbody></table></div>}
    </>
  );
}

export function TimelinePage() {
  const [held, setHeld] = useState<Row[] | null>(null);
  const all = held ?? list("events").sort((a, b) => (a.id < b.id ? 1 : -1));
  const shown = filtered(all, place.value.params.get("filter") ?? "");
  const minutes = [...new Set(shown.slice(0, 500).map((one) => time(one.at).slice(0, 16)))];
  return (
    <>
      <h2>Timeline</h2>
      <Filter label="Filter events" />
      <p aria-live="polite">{shown.length} of {all.length} events{shown.length > 500 && ", the latest 500 are shown"} <button aria-pressed={held !== null} onClick={() => setHeld(held ? null : all)}>{held ? "Go on" : "Pause"}</button></p>
      {minutes.map((minute) => <section aria-label={minute}><h3>{minute}</h3>
        <ul class="events">{shown.slice(0, 500).filter((one) => time(one.at).startsWith(minute)).map((one) => <li key={one.id} data-event={one.kind}>
          <span class="soft">{time(one.at).slice(17)} s</span> <strong>{one.kind}</strong> {one.shard} {one.reason}{one.count > 1 && ` ×${one.count}`}</li>)}</ul></section>)}
    </>
  );
}

export function PathPage() {
  const path = place.value.params.get("path") ?? "";
  const [text, setText] = useState(path);
  const [told, setTold] = useState<any>(null);
  useEffect(() => {
    const stop = new AbortController();
    setTold(null);
    if (path) ask("explain?path=" + encodeURIComponent(path), stop.signal).then((answer) => answer.json()).then(setTold, () => {});
    return () => stop.abort();
  }, [path]);
  return (
    <>
      <h2>Path</h2>
      <form onSubmit={(event) => { event.preventDefault(); setParam("path", text.trim()); }}>
        <label>Workspace path, URL path or URL<input id="filter" value={text} maxLength={2000} onInput={(event) => setText(event.currentTarget.value)} placeholder="root:org" /></label>
        <button type="submit">Explain</button>
      </form>
      <div aria-live="polite">{told && <>
        {told.steps && <ol>{told.steps.map((step: any) => <li><strong>{step.segment}</strong> → shard {step.shard || "–"}, cluster {step.cluster || "–"} <span class="soft">{step.source} {step.note}</span></li>)}</ol>}
        <pre id="explained">{JSON.stringify(told, null, 2)}</pre></>}</div>
    </>
  );
}
