import { signal } from "@preact/signals";

export type Row = { id: string } & Record<string, any>;
export type Rows = Map<string, Row>;
export const views = ["overview", "shards", "streams", "slices", "partitions", "sets", "workers", "events"] as const;
export type View = (typeof views)[number];

export const rows = Object.fromEntries(views.map((view) => [view, signal<Rows>(new Map())])) as Record<View, ReturnType<typeof signal<Rows>>>;
/** What the connection is, in words; "": all is well. */
export const trouble = signal("");
export const generated = signal("");
export const viewer = signal<{ user: string; groups: string[]; full: string[]; part: string[] } | null>(null);
export const seesAll = (name: string) => !!viewer.value?.full.includes(name);
export const sees = (name: string) => seesAll(name) || !!viewer.value?.part.includes(name);
export const needsToken = signal(false);
/** Kept here only: gone with the tab. */
let token = "";
export const setToken = (text: string) => { token = text; needsToken.value = false; connect(); };

/** Page and its parameters, from the fragment: #/watches?filter=x */
export const place = signal(parse());
function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: path || "map", params: new URLSearchParams(query ?? "") };
}
addEventListener("hashchange", () => { go(parse()); });
/** Of whom may not see all slices, partitions and sets: those of this logical cluster. */
const cluster = () => place.peek().params.get("cluster") ?? "";
let asked = "";
function go(next: ReturnType<typeof parse>) {
  place.value = next;
  if (cluster() !== asked) connect();
}
export function setParam(name: string, value: string) {
  const { page, params } = place.peek();
  const next = new URLSearchParams(params);
  if (value) next.set(name, value); else next.delete(name);
  const query = next.toString();
  history.replaceState(null, "", `#/${page}${query ? "?" + query : ""}`);
  go({ page, params: next });
}

export async function ask(path: string, signal?: AbortSignal): Promise<Response> {
  const answer = await fetch("api/v1/" + path, { headers: token ? { authorization: "Bearer " + token } : {}, cache: "no-store", credentials: "same-origin", signal });
  if (answer.status === 401) needsToken.value = true;
  return answer;
}

type Line = { view?: View; op: "reset" | "upsert" | "remove" | "tick"; items?: Row[]; generated?: string };
/** Lines that came and are not shown yet: many are shown at once, and while nothing comes nothing is done. */
let waiting: Line[] = [];
function take(line: Line) {
  if (!waiting.length) setTimeout(show, 100);
  waiting.push(line);
}
function show() {
  const lines = waiting;
  waiting = [];
  const changed = new Map<View, Rows>();
  for (const line of lines) {
    generated.value = line.generated ?? new Date().toISOString();
    if (!line.view || !rows[line.view]) continue;
    const now = line.op === "reset" ? new Map() : changed.get(line.view) ?? new Map(rows[line.view].peek());
    for (const item of line.items ?? []) if (line.op === "remove") now.delete(item.id); else now.set(item.id, item);
    changed.set(line.view, now);
  }
  changed.forEach((now, view) => { rows[view].value = now; });
}

let running: AbortController | null = null;
let pause = 1;
export async function connect() {
  running?.abort();
  const mine = (running = new AbortController());
  try {
    asked = cluster();
    const about = asked ? "?cluster=" + encodeURIComponent(asked) : "";
    const first = await ask("overview" + about, mine.signal);
    if (!first.ok) throw new Error(first.status === 401 ? "this needs a certificate or a token" : `the proxy answers ${first.status}`);
    viewer.value = (await first.json()).viewer;
    const stream = await ask("live" + about, mine.signal);
    if (!stream.ok) throw new Error(`the proxy answers ${stream.status}`);
    trouble.value = "";
    pause = 1;
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the proxy has ended the stream");
      const lines = (rest + value).split("\n");
      rest = lines.pop()!;
      lines.forEach((line) => take(JSON.parse(line)));
    }
  } catch (error) {
    if (mine.signal.aborted) return;
    trouble.value = `Not live: ${(error as Error).message}.`;
    if (!needsToken.peek()) setTimeout(() => { if (running === mine) connect(); }, 1000 * pause);
    pause = Math.min(30, pause * 2);
  }
}
