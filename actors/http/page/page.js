// The page: follows the service, shows its status, and sends it signals.

import { ask } from "./ask.js";
import { Chart } from "./chart.js";
import { Refused, follow, tell } from "./stream.js";
import { Tables, arrange } from "./tables.js";
import { bytes, clock, count, element, names, plural, seconds, short, span, text } from "./words.js";

const MOST_EVENTS = 200;
const KEPT = "tidemark-token";

const find = (id) => document.getElementById(id);

let token = sessionStorage.getItem(KEPT) ?? "";
let overview = null;
let connected = false;
let events = [];

const charts = [
  ["chart-lag", { title: "Source lag", hint: "Age of the newest commit read from the log", value: (p) => p.lag, write: seconds, least: 1 }],
  ["chart-freshness", {
    title: "Lake freshness", hint: "Time from the commit on the source until the lake shows it", value: (p) => p.freshness, write: seconds, least: 1,
  }],
  ["chart-changes", { title: "Changes", hint: "Row images read from the log", value: (p) => p.changes, write: (v) => `${short(Math.round(v))}/s`, least: 10 }],
  ["chart-snapshot", { title: "Snapshot rows", hint: "Rows that chunks have read", value: (p) => p.snapshot_rows, write: (v) => `${short(Math.round(v))}/s`, least: 10 }],
].map(([id, of]) => new Chart(find(id), of));

const tables = new Tables({
  rows: find("rows"), search: find("search"), more: find("more"), none: find("none"), sum: find("tables-sum"), ask: signalTable,
});

// Display.

function begin(told) {
  connected = true;
  overview = told.overview;
  text(find("name"), told.name);
  document.title = `${told.name} · Tidemark`;
  find("token").hidden = !told.controlled;
  charts.forEach((chart) => chart.begin(told.history));
  tables.begin(told.tables, overview.paused);
  events = told.events;
  showEvents();
  show();
}

function step(told) {
  overview = told.overview;
  if (told.point) charts.forEach((chart) => chart.step(told.point));
  tables.step(told.tables, told.gone, overview.paused);
  if (told.events.length) {
    events = [...events, ...told.events].slice(-MOST_EVENTS);
    showEvents();
  }
  show();
}

function lost() {
  connected = false;
  show();
}

function show() {
  document.body.classList.toggle("lost", !connected);
  const [kind, word] = stateOf();
  find("state").dataset.kind = kind;
  text(find("state-text"), word);
  const notice = noticeOf();
  find("notice").hidden = !notice;
  text(find("notice"), notice);
  for (const id of ["start", "pause"]) find(id).disabled = !connected;
  if (!overview) return;
  text(find("pause"), overview.paused ? "Resume snapshots" : "Pause snapshots");
  find("pause").setAttribute("aria-pressed", overview.paused);
  showWindows(overview.windows);
  showActors(Object.entries(overview.actors));
  showPlace();
}

function stateOf() {
  if (!connected) return ["off", overview ? "not connected" : "connecting"];
  if (Object.values(overview.actors).some(({ state }) => state === "ended")) return ["warn", "stopping"];
  if (!overview.ready) return ["bad", "not ready"];
  if (overview.no_room) return ["bad", "capture waits"];
  return overview.paused ? ["warn", "snapshots paused"] : ["good", "running"];
}

function noticeOf() {
  if (!connected) return overview ? "The service doesn't answer. The page shows its last answer and keeps trying." : "";
  const reasons = Object.entries(overview.reasons).map(([actor, reason]) => (reason.startsWith(actor) ? reason : `${actor}: ${reason}`));
  return [...new Set([overview.no_room, overview.set_aside, ...reasons].filter(Boolean))].join(" · ");
}

function showWindows(windows) {
  text(find("windows-sum"), windows.length ? plural(windows.length, "window") : "");
  const lines = windows.slice(0, 12).map(({ table, range, state, rows, age_seconds: age }) =>
    element("li", {},
      element("span", { className: "grow cut", title: table }, table),
      element("span", { className: "dim" }, range < 0 ? "read again" : `range ${range + 1}`),
      element("span", { className: "dim wide" }, state === "reading" ? "reading" : plural(rows, "row")),
      element("span", { className: "number short" }, seconds(age)),
    ));
  if (windows.length > 12) lines.push(element("li", { className: "dim" }, `and ${count(windows.length - 12)} more`));
  if (!windows.length) lines.push(element("li", { className: "dim" }, "None is open."));
  if (overview.busy) lines.push(element("li", { className: "dim" }, `No chunk is requested: ${overview.busy}`));
  find("windows").replaceChildren(...lines);
}

function showActors(actors) {
  const restarts = actors.reduce((sum, [, { restarts }]) => sum + restarts, 0);
  text(find("actors-sum"), restarts ? plural(restarts, "restart") : "");
  find("actors").replaceChildren(...actors.map(([name, { state, mailbox, restarts, last_failure: failure }]) => {
    const level = element("i", { className: "level" }, element("i", { className: "fill" }));
    level.firstChild.style.width = `${(100 * mailbox.depth) / mailbox.capacity}%`;
    // A mailbox of one keeps only the newest message, so it is full with each message.
    level.classList.toggle("full", mailbox.capacity > 1 && mailbox.depth >= mailbox.capacity);
    return element("li", { title: failure ?? "" },
      element("span", { className: "dot", "data-kind": { running: "good", starting: "warn", restarting: "bad", ended: "off", absent: "off" }[state] }),
      element("span", { className: "grow cut" }, name),
      element("span", { className: "dim" }, [state === "running" ? "" : state, restarts ? `↻ ${count(restarts)}` : ""].filter(Boolean).join(" ")),
      level,
      element("span", { className: "number short" }, `${count(mailbox.depth)}/${count(mailbox.capacity)}`),
    );
  }));
}

// An actor that doesn't run reports nothing, which doesn't mean that there is nothing.
function reported(actor) {
  return overview.actors[actor]?.state === "running" ? "nothing yet" : "unknown";
}

function showPlace() {
  const { journal, consumers, undelivered_seconds: waits } = overview;
  const places = [
    ["Source", [overview.source, overview.log].filter(Boolean).join(" · ") || "not connected", true],
    ["Captured through", overview.position || reported("WatermarkCoordinator"), true],
    ["In the lake through", overview.delivered_position || reported("SparkSink"), true],
    ["Journal", `segment ${count(journal.segment)}, ${bytes(journal.bytes)}`],
    ...Object.entries(consumers).map(([name, { behind }]) => [`Consumer ${name}`, behind ? `${plural(behind, "segment")} to read` : "has everything"]),
  ];
  if (waits >= 5) places.push(["Waiting for the lake", span(waits)]);
  const parts = places.flatMap(([what, value, code]) => [
    element("dt", {}, what), element("dd", code ? { className: "code", title: value } : {}, value),
  ]);
  find("place").replaceChildren(...parts);
}

function showEvents() {
  const only = find("only").checked;
  const shown = events.filter(({ level }) => !only || !["info", "debug"].includes(level)).reverse();
  const lines = shown.map((event) => {
    if (!event.line) {
      const more = Object.entries(event.more).map(([key, value]) => `${key} ${value}`).join(" · ");
      event.line = element("li", { "data-level": event.level },
        element("time", { dateTime: event.at, title: event.at }, clock(new Date(event.at))),
        element("span", { className: "kind" }, event.level),
        element("span", { className: "event" }, event.event),
        element("span", { className: "more dim" }, more),
      );
    }
    return event.line;
  });
  const none = element("li", { className: "dim" }, only ? "No warnings and no errors." : "Nothing has happened yet.");
  arrange(find("events"), lines.length ? lines : [none]);
}

// Signals.

const QUESTIONS = {
  execute: (table) => ({
    heading: `Take a snapshot of ${table}?`,
    explanation: "Tidemark reads its rows in chunks. Changes continue to stream.",
    action: "Take it",
  }),
  stop: (table) => ({
    heading: `Stop the snapshot of ${table}?`,
    explanation: "The rows that were read stay in the lake. Tidemark doesn't read the others. Another snapshot begins at the first row.",
    action: "Stop it",
    danger: true,
  }),
  unverify: (table) => ({
    heading: `Stop the verification of ${table}?`,
    explanation: "It then has no result. Another verification begins at the first row.",
    action: "Stop it",
    danger: true,
  }),
  recapture: (table) => ({
    heading: `Begin ${table} again?`,
    explanation: "First remove the cause, or the table stops again. Tidemark then captures its changes, and a snapshot reads its rows.",
    action: "Begin it again",
  }),
};

const TYPES = { execute: "execute-snapshot", stop: "stop-snapshot", unverify: "stop-snapshot", recapture: "recapture" };

async function signalTable(action, table) {
  if (!(await ask(QUESTIONS[action](table)))) return;
  const tables = { "data-collections": [pattern(table)] };
  await signal({ type: TYPES[action], data: action === "recapture" ? tables : { type: "incremental", ...tables } });
}

async function start() {
  const all = [...tables.tables.values()].filter(({ keyless, stopped }) => !keyless && !stopped);
  const wanted = await ask({
    heading: "Take a snapshot",
    explanation: `Enter a regular expression for database.table. Leave it empty for all ${count(all.length)} tables. Changes continue to stream.`,
    action: "Take it",
    field: "Tables",
  });
  if (wanted !== null) await signal({ type: "execute-snapshot", data: { type: "incremental", "data-collections": [wanted || ".*"] } });
}

async function signal(told) {
  const sent = { id: crypto.randomUUID?.() ?? `page-${Date.now()}-${Math.random()}`, ...told };
  for (;;) {
    try {
      const detail = await tell(() => token, sent).then((said) => said || "accepted");
      return say(detail, "good");
    } catch (error) {
      if (!(error instanceof Refused)) return say(error.message, "bad");
      if (!(await askForToken(`${error.message}.`))) return say("Nothing was sent.", "off");
    }
  }
}

async function askForToken(explanation) {
  const given = await ask({
    heading: "Token", explanation: `${explanation} The page keeps it while this tab is open.`, action: "Use it", field: "Token", secret: true,
  });
  if (given === null) return false;
  token = given;
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
  return true;
}

let given = () => {};
let silence = 0;

function say(words, kind) {
  const said = find("said");
  text(said, words);
  said.dataset.kind = kind;
  clearTimeout(silence);
  silence = setTimeout(() => text(said, ""), 8000);
}

// A pattern matches the names without quotes. All special characters of RE2 are ASCII, and only those may have a backslash.
const pattern = (table) => names(table).join(".").replace(/[^\w\u0080-\u{10ffff}]/gu, "\\$&");

find("start").addEventListener("click", start);
find("pause").addEventListener("click", () => signal({ type: overview.paused ? "resume-snapshot" : "pause-snapshot" }));
find("token").addEventListener("click", async () => {
  if (await askForToken("The page sends it with each signal. It is in the file of http.token_file, or in http-token in the journal's folder.")) given();
});
find("only").addEventListener("change", showEvents);

follow(() => token, {
  begin,
  step,
  lost,
  async refused() {
    lost();
    find("token").hidden = false;
    const another = new Promise((resolve) => (given = resolve));
    if (!(await askForToken(token ? "The service refuses this token." : "This service requires a token."))) await another;
  },
});
