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
  const { claims, counts } = store.manifest.value!;
  const { find, verdict, study, paper, scale, claim } = store.choice.value;
  if (!claims?.length) {
    return (
      <p class="empty">
        This page holds no claims: <code>hopscope explore --results DIR</code> adds those of a results folder.
      </p>
    );
  }
  const words = find.toLowerCase().split(/\s+/);
  const shown = claims.filter((one) => {
    const text = `${one.experiment} ${one.id} ${one.section} ${one.sentence} ${one.paper} ${one.study}`.toLowerCase();
    const chosen = (!verdict || one.verdict === verdict) && (!study || one.study === study);
    const last = scale ? one.scale === scale : one.counts || placeOfClaim(one) === claim;
    return chosen && last && (!paper || one.paper === paper) && words.every((word) => text.includes(word));
  });
  const asked = Boolean(find || verdict || study || paper || scale);
  return (
    <div class="view claims-view">
      <section class="card">
        <h2>Claims</h2>
        <p>{counts?.told}</p>
        <p class="hint">{counts?.how}</p>
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
          <Among label="Study" all="every study" name="study" claims={claims} />
          <Among label="Paper" all="every paper" name="paper" claims={claims} />
          <Among label="Scale" all="last scale" name="scale" claims={claims} />
          <p class="hint" role="status">
            {asked ? `${shown.length} shown` : ""}
          </p>
        </div>
      </section>
      {counts?.studies.map((one) => {
        const list = shown.filter((row) => row.study === one.study);
        return list.length > 0 && <Study key={one.study} {...one} list={list} asked={asked} />;
      })}
    </div>
  );
}

/** The claims of a study that are shown, by experiment; folded, unless they were asked for. */
function Study(of: { study: string; found: string; told: string; list: Claim[]; asked: boolean }) {
  const { claim } = useStore().choice.value;
  const [open, setOpen] = useState(false);
  const show = open || of.asked || of.list.some((one) => placeOfClaim(one) === claim);
  const groups = new Map<string, Claim[]>();
  for (const one of of.list) groups.set(one.experiment, [...(groups.get(one.experiment) ?? []), one]);
  return (
    <details class="card study" open={show} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2 class="title">{of.study}</h2>
        <span class="hint">{of.told}</span>
      </summary>
      {show && <p>{prose(of.found)}</p>}
      {show &&
        [...groups].map(([experiment, list]) => (
          <section key={experiment}>
            <h3>{experiment}</h3>
            {list[0]!.about && <p class="hint">{prose(list[0]!.about)}</p>}
            {list.map((one) => (
              <Row key={`${one.id} ${one.scale}`} claim={one} />
            ))}
          </section>
        ))}
    </details>
  );
}

/** A choice among what some claims have. */
function Among({
  label,
  all,
  name,
  claims,
}: {
  label: string;
  all: string;
  name: "study" | "paper" | "scale";
  claims: Claim[];
}) {
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
        <span class="sentence">{prose(claim.sentence)}</span>
        <span class="hint">
          {claim.control && "control · "}
          {claim.section} · {claim.scale}
        </span>
      </summary>
      {open && (
        <div class="claim-more">
          <p>
            <b class="num">{short(claim.number)}</b>
            {low !== null && high !== null && ` (${short(low)} to ${short(high)})`}, asked: {prose(claim.threshold)}; n
            = {claim.n}
            {claim.interval && `; mean over seeds ${claim.interval.map(short).join(" to ")} (95 %)`}
          </p>
          <Others claim={claim} />
          <Figure block={claim.figure} />
          <Table block={claim.table} />
          <Behind claim={claim} />
        </div>
      )}
    </details>
  );
}

/** Text in which what stands in backticks is code. */
function prose(text: string) {
  return text.split(/``?/).map((part, i) => (i % 2 ? <code key={String(i)}>{part}</code> : part));
}

/** What the same claim came to at other scales. */
function Others({ claim }: { claim: Claim }) {
  const store = useStore();
  const rows = store.manifest.value!.claims!.filter(
    (one) => one.experiment === claim.experiment && one.id === claim.id && one.scale !== claim.scale,
  );
  if (!rows.length) return null;
  return (
    <p class="hint">
      At other scales:{" "}
      {rows.map((one) => (
        <button key={one.scale} type="button" onClick={() => store.choose({ scale: "", claim: placeOfClaim(one) })}>
          {one.scale} {one.verdict}, {short(one.number)}
        </button>
      ))}
    </p>
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
    <div class="scroller">
      <img class="figure" src={address} alt="The experiment's figure; its numbers are in the table below" />
    </div>
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
