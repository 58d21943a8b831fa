// Formats numbers and moments as text, and makes elements from text. No text of the service becomes markup.

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const count = (value) => WHOLE.format(value);

export function short(value) {
  const [unit, name] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([unit]) => value >= unit) ?? [1, ""];
  return value < 10000 ? WHOLE.format(value) : `${SHORT.format(value / unit)} ${name}`;
}

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export function seconds(value) {
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 99.5) return `${Math.round(value)} s`;
  return span(value);
}

export function span(value) {
  const [hours, minutes, rest] = [Math.floor(value / 3600), Math.floor(value / 60) % 60, Math.round(value) % 60];
  if (hours) return `${count(hours)} h ${minutes} min`;
  return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, value > 0 ? Math.floor(Math.log2(value) / 10) : 0);
  const scaled = value / 2 ** (10 * power);
  return `${scaled < 10 && power ? scaled.toFixed(1) : Math.round(scaled)} ${units[power]}`;
}

export const clock = (at) => at.toLocaleTimeString("en-GB");

const MOMENT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// `at`: seconds since the epoch.
export const moment = (at) => MOMENT.format(new Date(1000 * at));

// Names with a dot or a backtick in them are quoted as in SQL, so that no two tables have the same text.
const QUOTED = /^`((?:[^`]|``)*)`\.`((?:[^`]|``)*)`$/s;

export function names(table) {
  const quoted = QUOTED.exec(table)?.slice(1).map((name) => name.replaceAll("``", "`"));
  return quoted ?? /^(.*?)\.(.*)$/s.exec(table)?.slice(1) ?? ["", table];
}
