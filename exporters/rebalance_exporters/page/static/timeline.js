// The drawing of a group's timeline: a band with its state, marks for rebalances, and a lane of partitions per member.
//
// Receives rebalances as the contract has them. The tables below it show the same, so the drawing itself is hidden from
// screen readers.

import { svg, visible } from "./dom.js";
import { countPartitions, listPartitions, plural } from "./figures.js";
import { rebalanceLink } from "./links.js";
import { memberName, severityRank, words } from "./words.js";

const MAX_LANES = 40;
const LATEST = 12;
const LABEL = 15, BAR = 18, GAP = 7, AXIS = 20, MARKS = 16, BAND = 14;
const CHAR_WIDTH = 6.7, TICK_WIDTH = 84;
const MINUTE = 60_000, HOUR = 60 * MINUTE;

/** The stretches of time to choose from, as [label, length]; a null length is fitted to the rebalances. */
export const RANGES = {
  latest: ["latest rebalances", null],
  quarter: ["15 min", 15 * MINUTE],
  hour: ["1 h", HOUR],
  sixHours: ["6 h", 6 * HOUR],
  day: ["24 h", 24 * HOUR],
  all: ["all that is kept", null],
};

const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((each) => each * 1000);

/** Return the stretch of time to draw, as [from, to]. `rebalances` are in order of time. */
export function chooseStretch(range, rebalances, nowMs) {
  const length = RANGES[range][1];
  if (length !== null) return [nowMs - length, nowMs];
  const shown = range === "all" ? rebalances : rebalances.slice(-LATEST);
  if (!shown.length) return [nowMs - 15 * MINUTE, nowMs];
  const from = shown[0].started_before_ms, end = shown.at(-1).completed_at_ms ?? nowMs;
  const stretch = Math.max(end - from, 30_000);
  // If the drawing extended to now, rebalances that ended long ago would be a speck at its left.
  const to = nowMs - end < 2 * stretch ? nowMs : end + 0.15 * stretch;
  return [from - 0.06 * stretch, Math.max(to, from + stretch)];
}

/** Draw a stretch of the past, {fromMs, toMs}, or a range if that is null, `width` pixels wide. Returns {drawing, hidden}; `hidden` is the number of members without room for a lane. */
export function drawTimeline({ rebalances, range, past, nowMs, width, clock, causes }) {
  const ordered = [...rebalances].sort((a, b) => a.started_before_ms - b.started_before_ms);
  const stretch = past === null ? chooseStretch(range, ordered, nowMs) : [past.fromMs, past.toMs];
  const scale = makeScale(stretch, width);
  const all = layLanes(ordered, stretch, nowMs);
  const lanes = all.slice(0, MAX_LANES);
  const parts = [...axis(scale, clock)];
  let top = AXIS;
  parts.push(...marks(ordered, scale, top, causes, clock, nowMs));
  top += MARKS;
  parts.push(...stateBand(ordered, scale, top, nowMs));
  top += BAND + GAP;
  const silences = ordered.flatMap((each) => each.impact?.silences ?? []);
  if (silences.length) {
    parts.push(...silenceBand(silences, scale, top));
    top += LABEL + 8 + GAP;
  }
  for (const lane of lanes) {
    parts.push(...drawLane(lane, scale, top), ...pauses(ordered, scale, top + LABEL, nowMs));
    top += LABEL + BAR + GAP;
  }
  const drawing = svg("svg", { class: "timeline", width, height: top, viewBox: `0 0 ${width} ${top}`, "aria-hidden": "true", focusable: "false" }, patterns(), parts);
  return { drawing, hidden: all.length - lanes.length };
}

function makeScale([from, to], width) {
  const x = (ms) => ((Math.min(Math.max(ms, from), to) - from) / (to - from)) * width;
  const overlaps = (a, b) => b >= from && a <= to;
  return { from, to, width, x, overlaps };
}

function patterns() {
  const lines = svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 6, height: 6, class: "hatch-ground" }), svg("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "hatch-line" }));
  const dots = svg("pattern", { id: "dots", width: 5, height: 5, patternUnits: "userSpaceOnUse" }, svg("circle", { cx: 2, cy: 2, r: 1, class: "dot" }));
  return svg("defs", {}, lines, dots);
}

function* axis(scale, clock) {
  const fitting = (scale.to - scale.from) / Math.max(2, Math.floor(scale.width / TICK_WIDTH));
  const step = TICKS.find((each) => each >= fitting) ?? 2 * TICKS.at(-1);
  const shift = clock.local ? new Date(scale.to).getTimezoneOffset() * MINUTE : 0;
  for (let at = Math.ceil((scale.from - shift) / step) * step + shift; at <= scale.to; at += step) {
    const x = scale.x(at);
    yield svg("line", { x1: x, x2: x, y1: AXIS - 4, y2: 10_000, class: "tick" });
    const text = step >= 86_400_000 ? clock.date(at) : step >= MINUTE ? clock.time(at).slice(0, 5) : clock.time(at);
    if (x > 14 && x < scale.width - 30) yield svg("text", { x, y: 11, class: "tick-text", "text-anchor": "middle" }, text);
  }
}

function* marks(rebalances, scale, top, causes, clock, nowMs) {
  for (const each of rebalances) {
    const at = each.started_before_ms;
    if (!scale.overlaps(at, each.completed_at_ms ?? nowMs)) continue;
    const cause = causes.get(each.rebalance_id);
    const grave = cause !== undefined && severityRank(cause.severity) > 0;
    const x = Math.min(Math.max(scale.x(at), 6), scale.width - 6);
    const title = `${clock.time(at)} ${words(each.reason)}, ${each.text.took}${cause ? `: ${words(cause.rule)}` : ""}`;
    yield svg("a", { href: rebalanceLink(each.cluster, each.group, each.rebalance_id), tabindex: "-1", class: `mark-link reason-${each.reason}${grave ? " grave" : ""}` },
      svg("title", {}, title),
      svg("rect", { x: x - 9, y: top - 3, width: 18, height: MARKS + BAND, class: "target" }),
      svg("path", { d: `M${x - 5} ${top + 2}h10l-5 9z`, class: "mark-shape" }));
  }
}

function* stateBand(rebalances, scale, top, nowMs) {
  let after = scale.from, state = "unseen";
  const piece = function* (a, b, kind, title) {
    if (b <= a || !scale.overlaps(a, b)) return;
    const width = Math.max(scale.x(b) - scale.x(a), kind === "moving" ? 2.5 : 0);
    yield svg("rect", { x: scale.x(a), y: top, width, height: BAND, class: `band ${kind}`, fill: kind === "moving" ? "url(#hatch)" : null }, svg("title", {}, title));
  };
  if (rebalances.length) state = rebalances[0].members_before.length ? "calm" : rebalances[0].generation_from === null ? "unseen" : "empty";
  const titles = { calm: "stable", empty: "no members", unseen: "not seen" };
  for (const each of rebalances) {
    yield* piece(after, each.started_before_ms, state, titles[state]);
    const end = each.completed_at_ms ?? nowMs;
    // At least 1 ms, so that one without length is visible too.
    yield* piece(each.started_before_ms, Math.max(end, each.started_before_ms + 1), "moving", `rebalancing: ${words(each.reason)}, ${each.text.took}`);
    after = end;
    state = each.members_after.length ? "calm" : "empty";
  }
  yield* piece(after, nowMs, state, titles[state]);
}

function* silenceBand(silences, scale, top) {
  const shown = silences.filter((each) => scale.overlaps(each.last_commit_ms, each.resumed_at_ms));
  yield svg("text", { x: 0, y: top + 10, class: "lane-name" }, `without commits: ${plural(new Set(shown.map((each) => `${each.topic}-${each.partition}`)).size, "partition")}`);
  yield svg("rect", { x: 0, y: top + LABEL, width: scale.width, height: 8, class: "lane-ground" });
  for (const [a, b] of merge(shown.map((each) => [each.last_commit_ms, each.resumed_at_ms]))) {
    yield svg("rect", { x: scale.x(a), y: top + LABEL, width: Math.max(2, scale.x(b) - scale.x(a)), height: 8, class: "silence" }, svg("title", {}, "partitions without commits"));
  }
}

/** Return stretches of time, with those that touch merged. */
function merge(stretches) {
  const merged = [];
  for (const [a, b] of [...stretches].sort((one, other) => one[0] - other[0])) {
    const last = merged.at(-1);
    if (last && a <= last[1]) last[1] = Math.max(last[1], b);
    else merged.push([a, b]);
  }
  return merged;
}

/**
 * Return the lanes of members, as {name, stretches: [{from, to, member}]}. A member that rejoins under a new id continues
 * the lane that it, or a member of the same name, left.
 */
export function layLanes(rebalances, [from, to], nowMs) {
  const lanes = [];
  for (const epoch of epochsOf(rebalances, nowMs)) {
    const present = new Set(epoch.members.map((each) => each.member_id));
    const taken = new Set();
    const put = (lane, member) => {
      taken.add(lane);
      lane.last = member.member_id;
      if (epoch.to > from && epoch.from < to) addStretch(lane, epoch, member);
    };
    const strangers = [];
    for (const member of epoch.members) {
      const lane = lanes.find((each) => each.last === member.member_id);
      if (lane) put(lane, member);
      else strangers.push(member);
    }
    for (const member of strangers) {
      const name = memberName(member);
      let lane = lanes.find((each) => each.name === name && !taken.has(each) && !present.has(each.last));
      if (!lane) lanes.push((lane = { name, last: null, stretches: [] }));
      put(lane, member);
    }
  }
  return lanes.filter((each) => each.stretches.length).sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** Yield the members between rebalances, as {from, to, members}. */
function* epochsOf(rebalances, nowMs) {
  if (!rebalances.length) return;
  yield { from: -Infinity, to: rebalances[0].started_before_ms, members: rebalances[0].members_before };
  for (const [place, each] of rebalances.entries()) {
    if (each.completed_at_ms === null) continue;
    yield { from: each.completed_at_ms, to: rebalances[place + 1]?.started_before_ms ?? nowMs, members: each.members_after };
  }
}

function addStretch(lane, epoch, member) {
  lane.stretches.push({ from: epoch.from, to: epoch.to, member, text: listPartitions(member.partitions, 400), count: countPartitions(member.partitions) });
}

function* drawLane(lane, scale, top) {
  const room = Math.floor(scale.width / CHAR_WIDTH);
  const name = visible(lane.name);
  yield svg("text", { x: 0, y: top + 11, class: "lane-name" }, name.length > room ? `${name.slice(0, room - 1)}…` : name, svg("title", {}, lane.name));
  yield svg("rect", { x: 0, y: top + LABEL, width: scale.width, height: BAR, class: "lane-ground" });
  for (const each of lane.stretches) {
    const x = scale.x(each.from), width = Math.max(1, scale.x(each.to) - x);
    const kind = each.count === null ? "owned unclear" : each.count ? "owned" : "owned idle";
    yield svg("rect", { x, y: top + LABEL, width, height: BAR, class: kind, rx: 2 }, svg("title", {}, `${lane.name}: ${each.count === 0 ? "no partitions" : each.text}`));
    const text = fitting(each, width);
    if (text) yield svg("text", { x: x + 4, y: top + LABEL + 13, class: kind.replace("owned", "owned-text") }, text);
  }
}

/** Return the longest text about a stretch that fits; empty if none does. */
function fitting(stretch, width) {
  const texts = stretch.count === null ? ["not known", "?"] : stretch.count === 0 ? ["no partitions", "none", "0"] : [stretch.text, plural(stretch.count, "partition"), `${stretch.count}`];
  return texts.find((each) => each.length * CHAR_WIDTH + 8 <= width) ?? "";
}

function* pauses(rebalances, scale, top, nowMs) {
  for (const each of rebalances) {
    const a = each.started_before_ms, b = each.completed_at_ms ?? nowMs;
    if (!scale.overlaps(a, b)) continue;
    yield svg("rect", { x: scale.x(a), y: top, width: Math.max(1.5, scale.x(b) - scale.x(a)), height: BAR, class: "pause", fill: "url(#dots)" });
  }
}
