// Groups, rebalances and members in words, shared by several views. Functions return text, or elements made of it.

import { el, named } from "./dom.js";
import { age } from "./figures.js";
import { FindingState, SETTLED_STATES, SEVERITY_MARKS, SEVERITY_RANKS, SILENCES, STATE_MARKS, Severity, SilenceKind, TIGHT_MS, UNKNOWN_STATE_MARK } from "./sets.js";

const SETTLED = new Set(SETTLED_STATES);

/** Return the rank of a severity; an unknown one has the highest. */
export function severityRank(severity) {
  return SEVERITY_RANKS[known(severity)];
}

function known(severity) {
  return Object.hasOwn(SEVERITY_RANKS, severity) ? severity : Severity.PAGE;
}

/** Make the badge of a severity. */
export function severityBadge(severity, text = severity) {
  const shown = known(severity);
  return el("span", { class: `badge ${shown}` }, el("span", { "aria-hidden": "true" }, `${SEVERITY_MARKS[shown]} `), text);
}

/** Return the symbol of a state. */
export function stateMark(state) {
  if (state === null) return "?";
  return Object.hasOwn(STATE_MARKS, state) ? STATE_MARKS[state] : UNKNOWN_STATE_MARK;
}

/** Return a state, with its duration unless it is settled. */
export function stateText(row, nowMs) {
  if (row.state === null) return "not known";
  if (SETTLED.has(row.state) || row.state_since_ms === null) return row.state;
  return `${row.state} ${age(nowMs - row.state_since_ms)}`;
}

/** Return who asked for a silence: the person named in it, if any, and the user who logged in. */
export function askedBy(silence) {
  return silence.on_behalf_of === null ? silence.created_by : `${silence.on_behalf_of} (as ${silence.created_by})`;
}

/** Return whether a group's alerts are silenced; an announced deploy does not silence them. */
export function isSilenced(row) {
  return row.silence !== null && row.silence.kind !== SilenceKind.DEPLOY;
}

/** Return a text that a group's alerts are silenced, or that it is being deployed. */
export function silenceText(silence) {
  return Object.hasOwn(SILENCES, silence.kind) ? SILENCES[silence.kind] : silence.kind;
}

/** Return whether a group is between two assignments. */
export function isUnsettled(row) {
  return row.state !== null && !SETTLED.has(row.state);
}

/** Return the name of a member, which outlives its member id. */
export function memberName(member) {
  return `${member.group_instance_id || member.client_id || member.member_id || "?"}@${(member.host || "?").replace(/^\//, "")}`;
}

/** Make a group's name with a link, its owner below, and its cluster if there are several. */
export function nameCell({ cluster, group, owner }, link, several) {
  const below = [several ? cluster : null, owner].filter(Boolean);
  return [
    el("a", { href: link, class: "name" }, named(group)),
    below.length ? el("span", { class: "below" }, below.flatMap((each, place) => [place ? " · " : null, named(each)])) : null,
  ];
}

/** Return a reason or a rule as words. */
export function words(text) {
  return text.replaceAll("_", " ");
}

/** Return what triggered a rebalance, and who left, joined and rejoined. */
export function why(rebalance) {
  return rebalance.text.why.map((each) => (each.is_name ? named(each.text) : each.text));
}

/** Return the exporter's text of values before and after, with arrows. */
export function change(text) {
  return text.replaceAll(" -> ", " → ");
}

/** Return when a rebalance began, as exactly as known. */
export function beganText(rebalance, clock) {
  const latest = rebalance.started_before_ms, earliest = rebalance.started_after_ms;
  if (earliest === latest) return clock.moment(latest);
  if (earliest === null || latest - earliest > TIGHT_MS) return `${clock.moment(latest)} at the latest`;
  return `between ${clock.moment(earliest)} and ${clock.time(latest)}`;
}

/** Return the end of a rebalance, or its start while it is in progress, in epoch milliseconds. */
export function markMs(rebalance) {
  return rebalance.completed_at_ms ?? rebalance.started_before_ms;
}

/** Return a map from rebalance ids to the finding given as their cause. */
export function causesOf(findings) {
  const causes = new Map();
  for (const finding of findings) if (finding.primary) for (const id of finding.rebalance_ids) causes.set(id, finding);
  return causes;
}

/** Return findings, the most important first, as `reading_order` of the contract does; firing ones before others. */
export function orderFindings(findings) {
  const rank = (each) => {
    const latest = each.severity === Severity.INFO ? [0, -each.started_at_ms] : [-each.confidence, each.started_at_ms];
    return [each.state === FindingState.FIRING ? 0 : 1, -severityRank(each.severity), each.primary ? 0 : 1, ...latest];
  };
  return [...findings].sort((a, b) => compare(rank(a), rank(b)));
}

/** Return -1, 0 or 1 for two lists, compared element by element. */
export function compare(a, b) {
  for (let place = 0; place < a.length; place += 1) {
    if (a[place] < b[place]) return -1;
    if (a[place] > b[place]) return 1;
  }
  return 0;
}

/** Make one label with its value, for a list of facts. */
export function fact(label, ...value) {
  return el("div", {}, el("dt", {}, label), el("dd", {}, ...value));
}
