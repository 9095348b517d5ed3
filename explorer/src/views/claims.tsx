/** View 7: what results folders claim, each down to its table, its figure, and the runs behind it. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Claim } from "../bundle.ts";
import { text } from "../bundle.ts";
import { placeOfClaim } from "../choice.ts";
import { TableOf } from "../parts/table.tsx";
import { name, short } from "../parts/words.ts";
import { said, useStore } from "../store.ts";

const SIGNS = { holds: "✓", fails: "✗", undecided: "?" } as const;
const MOST = 60; // rows of a table

export function Claims() {
  const store = useStore();
  const claims = store.manifest.value!.claims ?? [];
  const { find, verdict, paper, scale } = store.choice.value;
  const words = find.toLowerCase().split(/\s+/);
  const shown = claims.filter((one) => {
    const text = `${one.experiment} ${one.id} ${one.section} ${one.sentence} ${one.paper}`.toLowerCase();
    const chosen = (!verdict || one.verdict === verdict) && (!scale || one.scale === scale);
    return chosen && (!paper || one.paper === paper) && words.every((word) => text.includes(word));
  });
  const groups = new Map<string, Claim[]>();
  for (const one of shown) groups.set(one.experiment, [...(groups.get(one.experiment) ?? []), one]);
  if (!claims.length) {
    return (
      <p class="empty">
        This page holds no claims: <code>hopscope explore --results DIR</code> adds those of a results folder.
      </p>
    );
  }
  return (
    <div class="view claims-view">
      <section class="card">
        <div class="card-head">
          <h2>Claims</h2>
          <p class="hint" role="status">
            {shown.length} of {claims.length}
          </p>
        </div>
        <div class="filters">
          <input
            type="search"
            aria-label="Find a claim"
            placeholder="Find a claim, an experiment, a section"
            value={find}
            onInput={(event) => store.choose({ find: event.currentTarget.value.slice(0, 120) })}
          />
          <fieldset class="segments">
            <legend class="hidden">Verdict</legend>
            {["", "holds", "fails", "undecided"].map((one) => (
              <label key={one} class={verdict === one ? "on" : ""}>
                <input
                  type="radio"
                  name="verdict"
                  checked={verdict === one}
                  onChange={() => store.choose({ verdict: one })}
                />
                {one || "all"}
              </label>
            ))}
          </fieldset>
          <Among label="Paper" all="every paper" name="paper" claims={claims} />
          <Among label="Scale" all="every scale" name="scale" claims={claims} />
        </div>
      </section>
      {[...groups].map(([experiment, list]) => (
        <section key={experiment} class="card">
          <h2>{experiment}</h2>
          {list[0]!.about && <p class="hint">{list[0]!.about}</p>}
          {list.map((one) => (
            <Row key={`${one.id} ${one.scale}`} claim={one} />
          ))}
        </section>
      ))}
    </div>
  );
}

/** A choice among what some claims have. */
function Among({ label, all, name, claims }: { label: string; all: string; name: "paper" | "scale"; claims: Claim[] }) {
  const store = useStore();
  const found = [...new Set(claims.map((one) => one[name]))].sort();
  return (
    <select
      aria-label={label}
      value={store.choice.value[name]}
      onChange={(event) => store.choose({ [name]: event.currentTarget.value })}
    >
      <option value="">{all}</option>
      {found.map((one) => (
        <option key={one}>{one}</option>
      ))}
    </select>
  );
}

function Row({ claim }: { claim: Claim }) {
  const store = useStore();
  const place = placeOfClaim(claim);
  const named = store.choice.value.claim === place;
  const [open, setOpen] = useState(named);
  const row = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (!named || row.current?.contains(document.activeElement)) return; // who opened it here sees it
    setOpen(true);
    row.current?.scrollIntoView({ block: "start" });
  }, [named]);
  const toggle = (now: boolean): void => {
    setOpen(now);
    const { claim } = store.choice.peek();
    if (now && claim !== place) store.choose({ claim: place });
    if (!now && claim === place) store.choose({ claim: "" });
  };
  const [low, high] = claim.spread;
  return (
    <details ref={row} class="claim" open={open} onToggle={(event) => toggle(event.currentTarget.open)}>
      <summary>
        <span class={`verdict ${claim.verdict}`}>
          <i aria-hidden="true">{SIGNS[claim.verdict]}</i> {claim.verdict}
        </span>
        <span class="sentence">{claim.sentence}</span>
        <span class="hint">
          {claim.section} · {claim.scale}
        </span>
      </summary>
      {open && (
        <div class="claim-more">
          <p>
            <b class="num">{short(claim.number)}</b>
            {low !== null && high !== null && ` (${short(low)} to ${short(high)})`}, asked: {claim.threshold}; n ={" "}
            {claim.n}
          </p>
          <Figure block={claim.figure} />
          <Table block={claim.table} />
          <Behind claim={claim} />
        </div>
      )}
    </details>
  );
}

/** Runs behind a claim: those in this page open; of others there is the command that makes them. */
function Behind({ claim }: { claim: Claim }) {
  const store = useStore();
  const here = store.manifest.value!.runs.filter((run) => claim.runs.includes(run.identity));
  return (
    <p>
      {here.map((run) => (
        <button key={run.identity} type="button" onClick={() => store.chooseRun(run.identity, { view: "run" })}>
          Open {name(run.name)}
        </button>
      ))}{" "}
      <span class="hint">
        {claim.runs.length} runs behind it; made by <code>{claim.command}</code>
      </span>
    </p>
  );
}

function Figure({ block }: { block: string | null }) {
  const store = useStore();
  const [address, setAddress] = useState("");
  useEffect(() => {
    if (!block) return;
    let made = "";
    store.bytes(block).then(
      (data) => {
        made = URL.createObjectURL(new Blob([data], { type: "image/svg+xml" }));
        setAddress(made);
      },
      () => setAddress(""),
    );
    return () => {
      if (made) URL.revokeObjectURL(made);
    };
  }, [block, store]);
  return address ? (
    <img class="figure" src={address} alt="The experiment's figure; its numbers are in the table below" />
  ) : null;
}

function Table({ block }: { block: string | null }) {
  const store = useStore();
  const [rows, setRows] = useState<string[][]>([]);
  useEffect(() => {
    if (!block) return;
    store.bytes(block).then(
      (data) => setRows(parsed(text(data))),
      (error) => setRows([[said(error)]]),
    );
  }, [block, store]);
  if (!rows.length) return null;
  const many = rows.length - 1;
  return (
    <TableOf head={rows[0]!} summary={`Table, ${many > MOST ? `the first ${MOST} of ` : ""}${many} rows`}>
      {rows.slice(1, 1 + MOST).map((row, i) => (
        <tr key={String(i)}>
          {row.map((cell, j) => (
            <td key={String(j)}>{name(cell, 60)}</td>
          ))}
        </tr>
      ))}
    </TableOf>
  );
}

/** CSV (RFC 4180) as rows of cells. */
export function parsed(csv: string): string[][] {
  const rows: string[][] = [[]];
  const pattern = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/gy;
  for (let found = pattern.exec(csv); found && pattern.lastIndex <= csv.length; found = pattern.exec(csv)) {
    const cell = found[1]!;
    rows.at(-1)!.push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (!found[2]) break;
    if (found[2] !== ",") rows.push([]);
  }
  return rows.filter((row) => row.length > 1 || row[0]);
}
