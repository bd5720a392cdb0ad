import { useRef, useState } from "preact/hooks";
import { place, setParam, type Row } from "./state";

export type Column = { field: string; title: string; value?: (row: Row) => any };
const HEIGHT = 34;

/** Of rows, which are never changed, only replaced. */
const texts = new WeakMap<Row, string>();
function textOf(row: Row) {
  const known = texts.get(row) ?? JSON.stringify(row).toLowerCase();
  texts.set(row, known);
  return known;
}
export function filtered(all: Row[], text: string) {
  const wanted = text.toLowerCase();
  return wanted ? all.filter((row) => textOf(row).includes(wanted)) : all;
}

export function Filter({ label }: { label: string }) {
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <label>{label}<input id="filter" type="search" value={place.value.params.get("filter") ?? ""} onInput={(event) => setParam("filter", event.currentTarget.value)} /></label>
    </form>
  );
}

/** Shows only the rows in sight of as many as there are. */
export function Table({ caption, columns, all, open }: { caption: string; columns: Column[]; all: Row[]; open: (row: Row) => void }) {
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const params = place.value.params;
  const sort = params.get("sort") ?? "-queueBytes";
  const field = sort.replace(/^-/, "");
  const column = columns.find((one) => one.field === field);
  const value = (row: Row) => (column?.value ? column.value(row) : row[field]) ?? "";
  const sorted = [...filtered(all, params.get("filter") ?? "")].sort((a, b) => {
    const [x, y] = sort.startsWith("-") ? [value(b), value(a)] : [value(a), value(b)];
    return x < y ? -1 : x > y ? 1 : a.id < b.id ? -1 : 1;
  });
  const first = Math.max(0, Math.floor(top / HEIGHT) - 10);
  const shown = sorted.slice(first, first + 60);
  return (
    <>
      <p aria-live="polite">{sorted.length} of {all.length} {caption}</p>
      <div class="scroll" tabIndex={0} role="region" aria-label={caption} ref={box} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <table class="windowed" aria-rowcount={sorted.length + 1}>
          <thead><tr>{columns.map((one) => (
            <th scope="col" aria-sort={one.field === field ? (sort.startsWith("-") ? "descending" : "ascending") : undefined}>
              <button onClick={() => setParam("sort", sort === one.field ? "-" + one.field : one.field)}>{one.title}{one.field === field ? (sort.startsWith("-") ? " ▾" : " ▴") : ""}</button>
            </th>))}</tr></thead>
          <tbody>
            {first > 0 && <tr aria-hidden="true" ref={(row) => { if (row) row.style.height = first * HEIGHT + "px"; }}><td colSpan={columns.length}></td></tr>}
            {shown.map((row, i) => (
              <tr key={row.id} aria-rowindex={first + i + 2} data-id={row.id}>{columns.map((one, c) => {
                const text = String((one.value ? one.value(row) : row[one.field]) ?? "");
                return <td title={text}>{c === 0 ? <button onClick={() => open(row)}>{text || "(open)"}</button> : text}</td>;
              })}</tr>))}
            {first + 60 < sorted.length && <tr aria-hidden="true" ref={(row) => { if (row) row.style.height = (sorted.length - first - 60) * HEIGHT + "px"; }}><td colSpan={columns.length}></td></tr>}
          </tbody>
        </table>
      </div>
    </>
  );
}
