// Formats numbers and times for people, as the terminal does.

import { CountedFrom } from "./sets.js";

export const UNKNOWN = "–";

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const EXACT_BELOW = 10_000;

/** Return a duration with one unit and at most three digits. */
export function span(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  for (const [unit, size, limit] of [["s", SECOND, MINUTE], ["min", MINUTE, HOUR], ["h", HOUR, 2 * DAY]]) {
    if (ms < limit) return `${short(ms / size)} ${unit}`;
  }
  return `${short(ms / DAY)} d`;
}

/** Return a sum of durations; zero is "0 s". */
export function sum(ms) {
  return ms === 0 ? "0 s" : span(ms);
}

/** Return seconds as milliseconds; null stays null. */
export function inMs(seconds) {
  return seconds === null || seconds === undefined ? null : seconds * SECOND;
}

/** Return an age, in whole seconds if below a minute. */
export function age(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  return ms < MINUTE ? `${Math.floor(Math.max(0, ms) / SECOND)} s` : span(ms);
}

/** Return a count of a group's row, marked as a lower bound if it is counted from probes. */
export function atLeast(row, number) {
  const known = number !== null && number !== undefined;
  return `${known && row.counted_from === CountedFrom.PROBES ? "≥ " : ""}${amount(number)}`;
}

/** Return a count: exact below ten thousand, then with k, M or G. */
export function amount(number) {
  if (number === null || number === undefined) return UNKNOWN;
  if (Math.abs(number) < EXACT_BELOW) return String(Math.round(number));
  for (const [suffix, size] of [["k", 1e3], ["M", 1e6]]) {
    if (Math.abs(number) < size * 1e3) return `${short(number / size)}${suffix}`;
  }
  return `${short(number / 1e9)}G`;
}

function short(number) {
  return Math.abs(number) < 99.95 ? number.toFixed(1).replace(/\.0$/, "") : number.toFixed(0);
}

/** Return the number with its noun. */
export function plural(number, noun) {
  return `${amount(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return a share as a percentage; a small one is "<1%", not 0. */
export function percent(share) {
  if (share === null || share === undefined) return UNKNOWN;
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}

/** Return numbers as sorted ranges, such as 0-3,7. */
export function ranges(numbers) {
  const ordered = [...numbers].sort((a, b) => a - b);
  const runs = [];
  for (const number of ordered) {
    const last = runs.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([low, high]) => (low === high ? `${low}` : `${low}-${high}`)).join(",");
}

/** Return the number of partitions in a topic -> numbers mapping; null stays null. */
export function countPartitions(partitions) {
  return partitions === null || partitions === undefined ? null : Object.values(partitions).reduce((sum, each) => sum + each.length, 0);
}

/** Return a topic -> numbers mapping as topic:0-3 other:1; if longer than `limit` characters, only the counts. */
export function listPartitions(partitions, limit = 80) {
  if (partitions === null || partitions === undefined) return UNKNOWN;
  const topics = Object.keys(partitions).filter((topic) => partitions[topic].length).sort();
  const text = topics.map((topic) => `${topic}:${ranges(partitions[topic])}`).join(" ");
  if (text.length <= limit) return text;
  return `${countPartitions(partitions)} of ${plural(topics.length, "topic")}`;
}

/** Formats times in UTC or in the browser's time zone. */
export class Clock {
  constructor(local = false) {
    this.local = local;
  }

  get zone() {
    if (!this.local) return "UTC";
    const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(new Date());
    return parts.find((part) => part.type === "timeZoneName").value;
  }

  /** Return the date as 2026-03-01. */
  date(atMs) {
    return this.#text(atMs).slice(0, 10);
  }

  /** Return the time of day as 14:05:09. */
  time(atMs) {
    return this.#text(atMs).slice(11, 19);
  }

  /** Return date and time, to the minute, as a datetime-local input has them. */
  field(atMs) {
    return this.#text(atMs).slice(0, 16);
  }

  /** Return the value of a datetime-local input as epoch milliseconds; NaN if it is not a time. */
  read(text) {
    return Date.parse(this.local ? text : `${text}Z`);
  }

  /** Return date, time and zone. */
  moment(atMs) {
    return `${this.date(atMs)} ${this.time(atMs)} ${this.zone}`;
  }

  /** Return the time of day, with the date if it is not the day of `nowMs`. */
  near(atMs, nowMs) {
    return this.date(atMs) === this.date(nowMs) ? this.time(atMs) : `${this.date(atMs)} ${this.time(atMs)}`;
  }

  #text(atMs) {
    const shift = this.local ? new Date(atMs).getTimezoneOffset() * MINUTE : 0;
    return new Date(atMs - shift).toISOString();
  }
}
