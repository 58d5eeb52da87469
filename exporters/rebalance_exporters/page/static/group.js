// One group: its state, findings, timeline, members and rebalances; updated by events.

import { AdvicePart } from "./advice.js";
import { el, grid, named, refill, section, timed } from "./dom.js";
import { UNKNOWN, age, amount, atLeast, countPartitions, inMs, listPartitions, percent, plural, span, sum } from "./figures.js";
import { findingArticle, firstChange, withNumbers } from "./finding.js";
import { findingsApi, groupApi, groupLink, maintenanceLink, pastLink, rebalanceLink, rebalancesApi } from "./links.js";
import { CountedFrom, EventName, FindingState } from "./sets.js";
import { keyOf } from "./store.js";
import { stretchForm, stretchText } from "./stretch.js";
import { RANGES, drawTimeline } from "./timeline.js";
import { LoadedView } from "./view.js";
import { askedBy, causesOf, change, fact, markMs, orderFindings, severityBadge, severityRank, silenceText, stateMark, stateText, why, words } from "./words.js";

const LOADED = 200, FIRST_ROWS = 15;
/** Interval between redraws of the timeline, whose right end moves with the time. */
const REDRAWN_MS = 5_000;
/** Findings of the present are listed for this long after they resolved. */
const RECENT_MS = 3_600_000;

export class GroupView extends LoadedView {
  #width = 0;

  constructor(root, store, readClock) {
    super(root, store, readClock);
    this.parts = Object.fromEntries(["head", "past", "facts", "timeline", "findings", "rebalances", "members"].map((name) => [name, el("div", { class: `part-${name}` })]));
    this.root.append(...Object.values(this.parts));
    this.advice = new AdvicePart();
    this.parts.findings.after(this.advice.root);
    this.observer = new ResizeObserver(() => this.render());
    this.observer.observe(this.parts.timeline);
  }

  open(target) {
    this.advice.open(target);
    return super.open(target);
  }

  close() {
    super.close();
    this.advice.close();
  }

  forget() {
    this.range = "latest";
    this.showsAll = false;
    this.snapshot = null;
    this.rebalances = null;
    this.findings = null;
  }

  addresses() {
    const { cluster, group, stretch } = this.target;
    return [groupApi(cluster, group), rebalancesApi(cluster, group, LOADED, stretch), findingsApi(cluster, group)];
  }

  keep(snapshot, listed, found) {
    this.snapshot = snapshot;
    this.rebalances = new Map(listed.rebalances.map((each) => [each.rebalance_id, each]));
    this.findings = new Map(found.findings.map((each) => [each.finding_id, each]));
  }

  apply(name, data) {
    // A past stretch does not change.
    if (this.target.stretch !== null) return null;
    if (name === EventName.GROUP) {
      if (this.#differs(data)) this.load();
      return null;
    }
    if (name === EventName.REBALANCE) this.#keepRebalance(data);
    else this.findings?.set(data.finding_id, withNumbers(data, this.findings.get(data.finding_id)));
    this.edition += 1;
    this.advice.askLater();
    if (name === EventName.FINDING) return `Finding, ${data.state}, ${data.severity}: ${words(data.rule)}`;
    return `Rebalance, ${data.outcome}: ${words(data.reason)}`;
  }

  #keepRebalance(rebalance) {
    this.rebalances?.set(rebalance.rebalance_id, rebalance);
    // Bounded, because a page may stay open for weeks.
    if (this.rebalances?.size > 2 * LOADED) this.rebalances.delete([...this.rebalances.values()].sort((a, b) => markMs(a) - markMs(b))[0].rebalance_id);
  }

  /** Return whether a new row shows that the loaded members are outdated. */
  #differs(row) {
    const known = this.snapshot;
    return known === null || row.generation !== known.generation || row.members !== (known.member_count ?? known.members.length) || row.state !== known.state;
  }

  draw() {
    const row = this.store.rows.get(keyOf(this.target)) ?? null;
    const clock = this.readClock(), nowMs = this.store.nowMs;
    const base = `${keyOf(this.target)} ${this.edition} ${clock.zone} ${clock.date(nowMs)}`;
    const { stretch } = this.target, isPast = stretch !== null;
    const known = this.findings === null ? [] : orderFindings(this.findings.values());
    const findings = known.filter((each) => (isPast ? wasOpen(each, stretch) : isRecent(each, nowMs)));
    const rebalances = this.rebalances === null ? [] : [...this.rebalances.values()].sort((a, b) => markMs(b) - markMs(a));
    const causes = causesOf(isPast ? findings : known);
    const { parts } = this;
    refill(parts.head, `${base} ${row === null ? "" : `${row.state} ${row.owner} ${JSON.stringify([row.findings, row.silence])}`}`, () => this.#head(row, findings, clock));
    // Not redrawn on events, which would overwrite what the user is typing.
    refill(parts.past, JSON.stringify([this.target, clock.zone, this.store.isLoaded]), () => this.#lookBack(clock));
    // Only rebalances and findings are kept of the past.
    refill(parts.facts, JSON.stringify([base, isPast || facts(row, nowMs)]), () => (isPast ? null : el("dl", { class: "facts" }, facts(row, nowMs).map(([label, value]) => fact(label, value)))));
    refill(parts.findings, base, () => this.#findingList(findings, clock, nowMs));
    this.#renderTimeline(base, rebalances, causes, clock, nowMs);
    refill(parts.rebalances, `${base} ${this.showsAll}`, () => this.#rebalanceTable(rebalances, causes, clock, nowMs));
    refill(parts.members, `${base} ${isPast}`, () => (isPast ? null : this.#memberTable()));
  }

  #head(row, findings, clock) {
    const { cluster, group, stretch } = this.target;
    const firing = stretch !== null ? [] : findings.filter((each) => each.state === FindingState.FIRING && severityRank(each.severity) > 0);
    return [
      el("p", { class: "crumbs" }, el("a", { href: stretch === null ? "#/" : pastLink(stretch) }, stretch === null ? "← All groups" : "← All groups then")),
      el("h1", { tabindex: "-1" }, named(group)),
      el("p", { class: "quiet" }, "cluster ", named(cluster), row?.owner ? [" · owner ", named(row.owner)] : null, stretch === null ? [" · ", el("a", { href: maintenanceLink(cluster, group) }, "silence or deploy …")] : null),
      row?.silence ? el("p", { class: "silence", role: "note" }, `${silenceText(row.silence)} until `, timed(row.silence.ends_at_ms, clock.moment(row.silence.ends_at_ms)), " by ", named(askedBy(row.silence)), ": ", named(row.silence.reason)) : null,
      firing.length ? el("p", { class: "lead" }, severityBadge(firing[0].severity), " ", firing[0].summary) : null,
      firing.length ? firstChange(firing[0]) : null,
      stretch === null ? null : el("p", { class: "lead", role: "note" }, `As it was: ${stretchText(stretch, clock)}.`),
      this.errorNote(row),
    ];
  }

  #lookBack(clock) {
    const { cluster, group, stretch } = this.target;
    const form = stretchForm({ stretch, nowMs: this.store.nowMs, clock, linkOf: (each) => groupLink(cluster, group, each) });
    return stretch === null ? el("details", { class: "look-back", "data-key": "look-back" }, el("summary", {}, "Look back"), form) : form;
  }

  #findingList(findings, clock, nowMs) {
    if (this.findings === null) return this.error === null ? this.waiting() : null;
    // Causes to act on are shown in full; their consequences, resolved findings and mere information have one line each.
    const isPast = this.target.stretch !== null;
    const acting = findings.filter((each) => (isPast || each.state === FindingState.FIRING) && severityRank(each.severity) > 0);
    const loud = acting.some((each) => each.primary) ? acting.filter((each) => each.primary) : acting.slice(0, 1);
    const calm = findings.filter((each) => !loud.includes(each));
    const context = { clock, nowMs };
    return section("Findings",
      loud.length ? loud.map((each) => findingArticle(each, context)) : el("p", { class: "quiet" }, isPast ? "None to act on is known of that time." : "Nothing to act on."),
      calm.map((each) => el("details", { "data-key": each.finding_id },
        el("summary", {}, severityBadge(each.severity), ` ${words(each.rule)}${each.state === FindingState.FIRING ? "" : ", resolved"}: ${each.summary}`),
        findingArticle(each, context))));
  }

  #renderTimeline(base, rebalances, causes, clock, nowMs) {
    const part = this.parts.timeline;
    if (!rebalances.length && this.target.stretch === null) {
      refill(part, base, () => null);
      return;
    }
    this.#width = Math.max(240, Math.floor(part.clientWidth));
    const stamp = `${base} ${this.range} ${this.#width} ${Math.floor(nowMs / REDRAWN_MS)}`;
    refill(part, stamp, () => this.#timeline(rebalances, causes, clock, nowMs));
  }

  #timeline(rebalances, causes, clock, nowMs) {
    const { drawing, hidden } = drawTimeline({ rebalances, range: this.range, past: this.target.stretch, nowMs, width: this.#width, clock, causes });
    const select = el("select", { id: "range" }, Object.entries(RANGES).map(([value, [text]]) => el("option", { value, selected: value === this.range }, text)));
    select.addEventListener("change", () => {
      this.range = select.value;
      this.render();
    });
    return el("section", { "aria-label": "Timeline" },
      el("div", { class: "row" }, el("h2", {}, "Timeline"), this.target.stretch === null ? el("p", { class: "tools" }, el("label", { for: "range" }, "Show"), select) : null),
      el("figure", {}, drawing, el("figcaption", { class: "legend" },
        `Times in ${clock.zone}. ▼ a rebalance (filled: with a cause to act on); band: `, el("span", { class: "key calm" }), " stable, ", el("span", { class: "key moving" }), " rebalancing, ", el("span", { class: "key empty" }), " no members. Each lane: what a member owns; dotted: the group rebalances.",
        hidden ? ` ${plural(hidden, "more member")} not drawn.` : null, " The tables below say the same. Colour of a ▼: what it began with: ",
        el("ul", { class: "keys" }, [...new Set(rebalances.map((each) => each.reason))].sort().map((each) => el("li", {}, el("span", { class: `key reason-${each}` }), ` ${words(each)}`))))));
  }

  #rebalanceTable(rebalances, causes, clock, nowMs) {
    if (this.rebalances === null) return null;
    if (!rebalances.length) return section("Rebalances", el("p", { class: "quiet" }, this.target.stretch === null ? "None is kept." : "None is kept of that time."));
    const shown = this.showsAll ? rebalances : rebalances.slice(0, FIRST_ROWS);
    const more = el("button", { type: "button", "data-key": "all-rebalances" }, this.showsAll ? `Show the latest ${FIRST_ROWS}` : `Show all ${rebalances.length}`);
    more.addEventListener("click", () => {
      this.showsAll = !this.showsAll;
      this.render();
    });
    return section("Rebalances",
      grid("Rebalances, the latest first", ["When", "Why", "Took", "Cause", "Members", "Generation", "Moved", "Lost"], shown.map((each) => rebalanceCells(each, causes, clock, nowMs)), [4, 5, 6, 7]),
      rebalances.length > FIRST_ROWS ? el("p", {}, more) : null);
  }

  #memberTable() {
    const members = this.snapshot?.members ?? [];
    if (!members.length) return null;
    const hasStatic = members.some((each) => each.group_instance_id), hasState = members.some((each) => each.state);
    const heads = ["Client-id", "Host", hasStatic ? "Instance" : null, hasState ? "State" : null, "#Partitions", "Assignment", "Consumer-id"].filter(Boolean);
    const sorted = [...members].sort((a, b) => (a.client_id + a.host < b.client_id + b.host ? -1 : 1));
    const rows = sorted.map((each) => [
      named(each.client_id), named(each.host.replace(/^\//, "")),
      ...(hasStatic ? [each.group_instance_id ? named(each.group_instance_id) : UNKNOWN] : []),
      ...(hasState ? [each.state ?? UNKNOWN] : []),
      amount(countPartitions(each.partitions)), el("code", {}, listPartitions(each.partitions, 160) || "none"), el("code", { class: "quiet" }, each.member_id),
    ]);
    return section("Members", grid("Members now", heads, rows, [heads.indexOf("#Partitions")]));
  }
}

/** Return whether a finding was open during a stretch of time. */
function wasOpen(finding, { fromMs, toMs }) {
  return finding.started_at_ms < toMs && (finding.resolved_at_ms === null || finding.resolved_at_ms >= fromMs);
}

function isRecent(finding, nowMs) {
  return finding.state === FindingState.FIRING || finding.resolved_at_ms === null || nowMs - finding.resolved_at_ms < RECENT_MS;
}

function rebalanceCells(each, causes, clock, nowMs) {
  const cause = causes.get(each.rebalance_id);
  const at = markMs(each), moved = each.moves === null ? UNKNOWN : amount(countPartitions(each.moves.moved));
  return [
    el("a", { href: rebalanceLink(each.cluster, each.group, each.rebalance_id) }, timed(at, clock.near(at, nowMs))),
    el("span", { class: `reason reason-${each.reason}` }, why(each)), each.text.took,
    cause ? [severityBadge(cause.severity), ` ${words(cause.rule)}`] : UNKNOWN,
    change(each.text.members), change(each.text.generations), moved,
    sum(each.impact?.lost_partition_ms),
  ];
}

/** Return the growth of lag in records per second; empty if it is unknown or would round to 0. */
function growth(slope) {
  const size = Math.abs(slope ?? 0);
  if (size < 0.05) return "";
  return ` (${slope > 0 ? "+" : "−"}${size < 10 ? size.toFixed(1).replace(/\.0$/, "") : amount(size)}/s)`;
}

/** Return the present facts about a group, as [label, text]. */
function facts(row, nowMs) {
  if (row === null) return [];
  const quarter = row.windows["15m"] ?? {};
  const list = [
    ["State", `${stateMark(row.state)} ${stateText(row, nowMs)}`],
    ["Rebalances in 1, 5, 15 min", ["1m", "5m", "15m"].map((each) => atLeast(row, row.windows[each]?.rebalances ?? null)).join(" · ")],
    ["Time rebalancing (15m)", percent(quarter.rebalancing_ratio)],
    ["Lost (15m)", sum(inMs(quarter.lost_partition_seconds))],
    ["Lag", row.lag === null ? UNKNOWN : `${amount(row.lag)}${growth(row.lag_slope)}`],
    ["Last commit", row.last_commit_ms === null ? UNKNOWN : `${age(nowMs - row.last_commit_ms)} ago`],
    ["Members", `${amount(row.members)}${row.idle_members ? `, ${row.idle_members} idle` : ""}`],
    ["Partitions", amount(row.assigned_partitions)],
    ["Generation", row.generation === null ? UNKNOWN : `${row.generation}`],
    ["Type", row.type ?? UNKNOWN],
    ["Assignment strategy", row.protocol ?? UNKNOWN],
    ["Coordinator", row.coordinator === null ? UNKNOWN : `broker ${row.coordinator}`],
  ];
  if (row.counted_from === CountedFrom.PROBES) list.push(["Counted from", "probes, so at least: the log is not read"]);
  if (row.heartbeat_headroom_ratio !== null) list.push(["Heartbeat headroom (5m)", percent(row.heartbeat_headroom_ratio)]);
  if (row.poll_gap_max_seconds !== null) list.push(["Longest poll gap (5m)", span(inMs(row.poll_gap_max_seconds))]);
  return list;
}
