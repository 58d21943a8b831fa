// The verification of a table, in words.

import { count, moment, plural } from "./words.js";

// Whether rows are read of the source.
export const reads = (verification) => ["waiting", "chunking", "repairing"].includes(verification?.state);

// Returns its verdict, after a repair that of the repair; undefined without one.
export const verdict = (verification) => (verification?.result?.repaired ?? verification?.result)?.verdict;

export function sentence({ state, ranges, ranges_done: done, result }) {
  if (result) {
    const read = `Verification of ${moment(result.at)}: ${judged(result)}, ${plural(result.rows, "row")} read`;
    return result.repaired ? `${read}. Repair of ${moment(result.repaired.at)}: ${judged(result.repaired)}` : read;
  }
  if (state === "waiting") return "Its verification waits";
  if (state === "chunking") return `Under verification: ${done} of ${plural(ranges, "range")} read`;
  return "Under verification: its rows are compared";
}

function judged({ verdict, found, reason }) {
  const kinds = Object.entries(found).map(([kind, rows]) => `${count(rows)} ${kind}`).join(", ");
  const said = { equal: "equal to the source", different: `not equal to the source (${kinds})`, unjudged: "couldn't be judged" };
  return [said[verdict], reason].filter(Boolean).join(", ");
}
