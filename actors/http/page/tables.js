// The tables: for each one a map of its ranges, its counts, its verification, and a button for its next signal.

import { reads, sentence, verdict } from "./verification.js";
import { count, element, names, plural, short, span, text } from "./words.js";

const PAGE = 50;

// Tables that need attention come first.
const ORDER = ["failed", "halted", "reading", "paused", "waiting", "late", "stopped", "complete", "streaming", "keyless"];

const WORDS = {
  failed: "failed",
  halted: "not captured",
  reading: "reading",
  paused: "paused",
  waiting: "waiting",
  late: "begins again",
  stopped: "stopped",
  complete: "complete",
  streaming: "streaming",
  keyless: "changes only",
};

const ACTIONS = {
  execute: ["Snapshot…", "Take a snapshot of"],
  stop: ["Stop…", "Stop the snapshot of"],
  unverify: ["Stop…", "Stop the verification of"],
  recapture: ["Recapture…", "Begin again"],
};

export class Tables {
  constructor({ rows, search, more, none, sum, ask }) {
    Object.assign(this, { rows, search, more, none, sum, ask, shown: PAGE, paused: false });
    this.tables = new Map();
    this.drawn = new Map();
    search.addEventListener("input", () => {
      this.shown = PAGE;
      this.draw();
    });
    more.addEventListener("click", () => {
      this.shown += PAGE;
      this.draw();
    });
  }

  begin(tables, paused) {
    this.tables = new Map(tables.map((table) => [table.table, table]));
    this.paused = paused;
    this.draw();
  }

  step(tables, gone, paused) {
    const changed = tables.length || gone.length || paused !== this.paused;
    for (const table of tables) this.tables.set(table.table, table);
    for (const name of gone) this.tables.delete(name);
    this.paused = paused;
    if (changed) this.draw();
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const all = [...this.tables.values()].map((table) => ({ table, state: stateOf(table, this.paused) }));
    const found = all.filter(({ table }) => table.table.toLowerCase().includes(wanted));
    found.sort((a, b) => differs(b) - differs(a) || ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (a.table.table < b.table.table ? -1 : 1));
    const rows = found.slice(0, this.shown).map(({ table, state }) => {
      const row = this.drawn.get(table.table) ?? new Row(table.table, this.ask);
      row.show(table, state);
      return row;
    });
    this.drawn = new Map(rows.map((row) => [row.name, row]));
    arrange(this.rows, rows.map((row) => row.node));
    const left = found.length - rows.length;
    this.more.hidden = left <= 0;
    text(this.more, `Show ${Math.min(left, PAGE)} of ${count(left)} more`);
    this.none.hidden = found.length > 0;
    text(this.none, this.tables.size ? "No table name contains that." : "No table is captured yet.");
    text(this.sum, summary(all, found, wanted));
  }
}

class Row {
  constructor(name, ask) {
    this.name = name;
    const [database, table] = names(name);
    this.map = element("div", { className: "map", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100" });
    this.word = element("span", { className: "word" });
    this.cells = Object.fromEntries(
      ["Rows", "Rows/s", "Left", "Dropped", "Unmerged"].map((label) => [
        label,
        element("span", { role: "cell", className: "number", "data-label": label }),
      ]),
    );
    this.button = element("button", { type: "button", className: "quiet" });
    this.button.addEventListener("click", () => ask(this.action, this.name));
    this.why = element("span", { role: "cell", className: "why" });
    this.verified = element("span", { role: "cell", className: "verified" });
    this.node = element(
      "div",
      { role: "row", className: "row" },
      element(
        "span",
        { role: "cell", className: "name", title: name },
        element("span", { className: "database" }, `${database}.`),
        element("span", { className: "table" }, table),
      ),
      element("span", { role: "cell", className: "ranges" }, this.map, this.word),
      ...Object.values(this.cells),
      element("span", { role: "cell", className: "action" }, this.button),
      this.why,
      this.verified,
    );
  }

  show(table, state) {
    const { snapshot, verification, lake } = table;
    this.node.dataset.state = state;
    this.showMap(table, state);
    text(this.word, this.words(table, state));
    const told = snapshot ?? {};
    const done = snapshot ? snapshot.rows + snapshot.given_up : 0;
    const running = snapshot && ["waiting", "chunking", "repairing"].includes(snapshot.state);
    const expected = running && snapshot.expected ? ` / ~${short(Math.max(snapshot.expected, done))}` : "";
    text(this.cells["Rows"], done || expected || state === "complete" ? `${short(done)}${expected}` : "");
    text(this.cells["Rows/s"], running && told.rows_per_second !== null ? short(told.rows_per_second) : "");
    text(this.cells["Left"], running && told.left_seconds !== null ? span(told.left_seconds) : "");
    text(this.cells["Dropped"], snapshot?.given_up ? short(snapshot.given_up) : "");
    text(this.cells["Unmerged"], lake.pending_rows ? short(lake.pending_rows) : "");
    for (const cell of Object.values(this.cells)) cell.classList.toggle("nothing", !cell.textContent);
    const reasons = [table.stopped, snapshot?.state === "failed" ? snapshot.reason : null, lake.stopped];
    if (table.unread_rows) reasons.push(`${plural(table.unread_rows, "row")} to read again`);
    text(this.why, [...new Set(reasons.filter(Boolean))].join(" · "));
    this.why.hidden = !this.why.textContent;
    this.verified.hidden = !verification;
    this.verified.dataset.verdict = verdict(verification) ?? "";
    this.verified.title = verification?.result ? `at ${verification.result.position}` : "";
    text(this.verified, verification ? sentence(verification) : "");
    this.action = state === "halted" ? "recapture" : running ? "stop" : reads(verification) ? "unverify" : "execute";
    const [label, meaning] = ACTIONS[this.action];
    text(this.button, label);
    this.button.setAttribute("aria-label", `${meaning} ${this.name}`);
    this.button.hidden = table.keyless && state !== "halted";
  }

  words({ snapshot }, state) {
    return state === "reading" ? `${snapshot.ranges_done} of ${plural(snapshot.ranges, "range")}` : WORDS[state];
  }

  showMap({ snapshot }, state) {
    const filled = snapshot?.map.filled.length ? snapshot.map.filled : [state === "complete" ? 1 : 0];
    while (this.map.childElementCount > filled.length) this.map.lastChild.remove();
    while (this.map.childElementCount < filled.length) {
      this.map.append(element("i", { className: "cell" }, element("i", { className: "fill" })));
    }
    this.map.classList.toggle("fine", filled.length > 40);
    const open = new Set(snapshot?.map.open ?? []);
    filled.forEach((part, at) => {
      const cell = this.map.children[at];
      cell.classList.toggle("open", open.has(at));
      cell.firstChild.style.width = `${100 * part}%`;
    });
    const percent = Math.floor((100 * filled.reduce((sum, part) => sum + part, 0)) / filled.length);
    this.map.setAttribute("aria-valuenow", percent);
    const windows = open.size ? `, ${plural(snapshot.windows, "open window")}` : "";
    this.map.setAttribute("aria-label", `${this.name}: ${WORDS[state]}, ${percent} %${windows}`);
    this.map.title = `${percent} %${windows}`;
  }
}

const differs = ({ table }) => verdict(table.verification) === "different";

function stateOf({ stopped, keyless, snapshot, lake }, paused) {
  if (stopped || lake.stopped) return "halted";
  if (snapshot?.state === "failed") return "failed";
  if (lake.late) return "late";
  if (["chunking", "repairing"].includes(snapshot?.state)) return paused ? "paused" : "reading";
  if (snapshot?.state === "waiting") return paused ? "paused" : "waiting";
  return { completed: "complete", stopped: "stopped" }[snapshot?.state] ?? (keyless ? "keyless" : "streaming");
}

function summary(all, found, wanted) {
  if (wanted) return `${count(found.length)} of ${plural(all.length, "table")}`;
  const of = (state) => all.filter((each) => each.state === state).length;
  const told = ["reading", "paused", "waiting", "failed", "halted"].filter(of).map((state) => `${count(of(state))} ${WORDS[state]}`);
  const different = all.filter(differs).length;
  if (different) told.push(`${count(different)} not equal to the source`);
  return [plural(all.length, "table"), ...told].join(" · ");
}

// Puts the nodes in this order. Nodes in their place stay untouched, so that they keep the focus.
export function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
}
