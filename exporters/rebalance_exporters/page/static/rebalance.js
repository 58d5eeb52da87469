// One rebalance explained: its cause, its phases, and the assignment of partitions before and after.

import { el, grid, named, refill, section } from "./dom.js";
import { UNKNOWN, amount, countPartitions, listPartitions } from "./figures.js";
import { findingArticle } from "./finding.js";
import { groupLink, rebalanceApi, rebalanceLink, rebalancesApi } from "./links.js";
import { ABORTED, EventName, JUDGED_AFTER_MS, NO_CAUSE, RebalanceOutcome } from "./sets.js";
import { keyOf } from "./store.js";
import { LoadedView } from "./view.js";
import { beganText, change, fact, markMs, memberName, severityBadge, why, words } from "./words.js";

/** With more members than this, only those whose partitions changed have a row. */
const ALL_ROWS = 20;
const LIST_WIDTH = 160, AROUND = 200;

export class RebalanceView extends LoadedView {
  constructor(root, store, readClock) {
    super(root, store, readClock);
    this.body = el("div", {});
    this.root.append(this.body);
  }

  forget() {
    this.rebalance = null;
    this.findings = new Map();
    this.around = [];
  }

  addresses() {
    const { cluster, group, rebalanceId } = this.target;
    return [rebalanceApi(cluster, group, rebalanceId), rebalancesApi(cluster, group, AROUND)];
  }

  keep(answer, around) {
    this.rebalance = answer.rebalance;
    this.findings = new Map(answer.findings.map((each) => [each.finding_id, each]));
    this.around = around.rebalances;
  }

  /** Return the link for a name proposed by the API: a group if the group does not exist, else a rebalance. */
  linkOf(name) {
    const { cluster, group } = this.target;
    return this.store.rows.has(keyOf(this.target)) ? rebalanceLink(cluster, group, name) : groupLink(cluster, name);
  }

  apply(name, data) {
    const { target } = this;
    if (name === EventName.REBALANCE && data.rebalance_id === target.rebalanceId) this.rebalance = data;
    else if (name === EventName.REBALANCE && !this.around.some((each) => each.rebalance_id === data.rebalance_id)) this.around = [data, ...this.around].slice(0, AROUND);
    else if (name === EventName.FINDING && data.rebalance_ids.includes(target.rebalanceId)) this.findings.set(data.finding_id, data);
    else return null;
    this.edition += 1;
    return null;
  }

  draw() {
    const clock = this.readClock();
    const { cluster, group, rebalanceId } = this.target;
    const isYoung = this.rebalance?.completed_at_ms && this.store.nowMs - this.rebalance.completed_at_ms < JUDGED_AFTER_MS;
    const signature = JSON.stringify([cluster, group, rebalanceId, this.edition, clock.zone, clock.date(this.store.nowMs), Boolean(isYoung), this.store.isLoaded]);
    refill(this.body, signature, () => [
      el("p", { class: "crumbs" }, el("a", { href: "#/" }, "← All groups"), " / ", el("a", { href: groupLink(cluster, group) }, named(group))),
      this.rebalance === null ? this.#waiting() : this.#explanation(clock),
    ]);
  }

  #waiting() {
    return [el("h1", { tabindex: "-1" }, "Rebalance ", named(this.target.rebalanceId)), this.waiting()];
  }

  #explanation(clock) {
    const { rebalance } = this;
    const at = markMs(rebalance), nowMs = this.store.nowMs;
    const context = { clock, nowMs, rebalanceId: rebalance.rebalance_id };
    const ordered = [...this.findings.values()].sort((a, b) => Number(b.primary) - Number(a.primary));
    const cause = ordered.find((each) => each.primary);
    const others = ordered.filter((each) => each !== cause);
    return [
      el("h1", { tabindex: "-1" }, rebalance.completed_at_ms === null ? "Rebalance that goes on since " : "Rebalance of ", clock.moment(at)),
      el("p", { class: "lead" }, cause ? [severityBadge(cause.severity), " ", cause.summary] : unjudged(rebalance, nowMs)),
      el("dl", { class: "facts" }, tellFacts(rebalance, clock)),
      section("Phases", phaseTable(rebalance, clock)),
      section("Before and after", ...compareAssignments(rebalance)),
      cause ? section("Cause", findingArticle(cause, context)) : null,
      others.length ? section("Also", others.map((each) => el("details", { "data-key": each.finding_id },
        el("summary", {}, severityBadge(each.severity), ` ${words(each.rule)}: ${each.summary}`), findingArticle(each, context)))) : null,
      this.#neighbours(clock),
    ];
  }

  #neighbours(clock) {
    const ordered = [...this.around].sort((a, b) => a.started_before_ms - b.started_before_ms);
    const place = ordered.findIndex((each) => each.rebalance_id === this.target.rebalanceId);
    if (place < 0) return null;
    const link = (text, each) => el("a", { href: rebalanceLink(each.cluster, each.group, each.rebalance_id) }, `${text} ${clock.time(markMs(each))}`);
    const before = ordered[place - 1], after = ordered[place + 1];
    return el("nav", { class: "row", "aria-label": "Neighbouring rebalances" }, before ? link("← before it:", before) : el("span", {}), after ? link("after it →", after) : el("span", {}));
  }
}

function unjudged(rebalance, nowMs) {
  if (rebalance.completed_at_ms === null) return `Cause ${NO_CAUSE.not_ended}.`;
  const why = nowMs - rebalance.completed_at_ms < JUDGED_AFTER_MS ? NO_CAUSE.young : NO_CAUSE.none_kept;
  return `${why[0].toUpperCase()}${why.slice(1)}.`;
}

function tellFacts(rebalance, clock) {
  const { text } = rebalance;
  return [
    fact("Why", why(rebalance)),
    fact("Took", text.took, rebalance.outcome === RebalanceOutcome.ABORTED ? `, ${ABORTED}` : null),
    fact("Began", beganText(rebalance, clock)),
    fact("Members", change(text.members)),
    fact("Generation", change(text.generations), text.steps === null ? null : ` (${text.steps})`),
    fact("Partitions", text.partitions),
    fact("Without commits", text.without_commits),
    text.lag === null ? null : fact("Lag", change(text.lag)),
  ];
}

function phaseTable(rebalance, clock) {
  const { phases } = rebalance.text;
  const total = phases.reduce((sum, each) => sum + (each.least_ms ?? 0), 0) || 1;
  let begun = 0;
  const rows = phases.map((each) => {
    const fill = el("span", { class: "bar-fill" });
    fill.style.marginInlineStart = `${(100 * begun) / total}%`;
    fill.style.width = `${Math.max(0.5, (100 * (each.least_ms ?? 0)) / total)}%`;
    begun += each.least_ms ?? 0;
    const bar = el("span", { class: "bar-track wide-bar", "aria-hidden": "true" }, fill);
    return [each.what, each.took, each.until_ms === null ? UNKNOWN : clock.time(each.until_ms), bar];
  });
  return grid("Phases", ["Phase", "Duration", "Until", "Share"], rows, [1, 2]);
}

/** Return pairs of members before and after: one that rejoined under a new id counts as the same. */
export function pairMembers(rebalance) {
  const before = new Map(rebalance.members_before.map((each) => [each.member_id, each]));
  const instances = new Map(rebalance.members_before.filter((each) => each.group_instance_id).map((each) => [each.group_instance_id, each.member_id]));
  const replaced = new Map(rebalance.replaced.map(([old, next]) => [next, old]));
  const pairs = rebalance.members_after.map((member) => {
    const known = [member.member_id, replaced.get(member.member_id), instances.get(member.group_instance_id)].find((id) => before.has(id));
    const old = known === undefined ? null : before.get(known);
    before.delete(known);
    return [old, member];
  });
  pairs.push(...[...before.values()].map((member) => [member, null]));
  const order = ([old, next]) => memberName(next ?? old);
  return pairs.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

function compareAssignments(rebalance) {
  const pairs = pairMembers(rebalance).map((pair) => ({ pair, ...difference(pair) }));
  if (!pairs.length) return [el("p", { class: "quiet" }, "No members before and none after.")];
  const shown = pairs.length <= ALL_ROWS ? pairs : pairs.filter((each) => each.differs);
  const rows = shown.map(({ pair: [old, next], gained, lost, kept }) => [
    [named(memberName(next ?? old)), old && next && old.member_id !== next.member_id ? el("span", { class: "below" }, "came back under a new id") : null],
    `${old === null ? "joined" : amount(countPartitions(old.partitions))} → ${next === null ? "gone" : amount(countPartitions(next.partitions))}`,
    share("+", "gained", gained), share("−", "lost", lost), kept === null ? UNKNOWN : el("code", { class: "quiet" }, listPartitions(kept, LIST_WIDTH) || "none"),
  ]);
  const hidden = pairs.length - shown.length;
  return [grid("Partitions before and after, by member", ["Member", "#Partitions", "Gained", "Lost", "Kept"], rows), hidden ? el("p", { class: "quiet" }, `and ${hidden} members whose partitions did not change`) : null];
}

function share(sign, kind, partitions) {
  if (partitions === null) return UNKNOWN;
  const count = countPartitions(partitions);
  return count ? el("code", { class: kind }, `${sign}${count}  ${listPartitions(partitions, LIST_WIDTH)}`) : el("span", { class: "quiet" }, "none");
}

function difference([old, next]) {
  const had = owned(old), has = owned(next);
  if (had === null || has === null) return { gained: null, lost: null, kept: null, differs: true };
  const gained = regroup([...has].filter((each) => !had.has(each))), lost = regroup([...had].filter((each) => !has.has(each)));
  const kept = regroup([...has].filter((each) => had.has(each)));
  return { gained, lost, kept, differs: old === null || next === null || countPartitions(gained) + countPartitions(lost) > 0 };
}

function owned(member) {
  if (member === null) return new Set();
  if (member.partitions === null) return null;
  return new Set(Object.entries(member.partitions).flatMap(([topic, numbers]) => numbers.map((each) => JSON.stringify([topic, each]))));
}

function regroup(names) {
  // Without what other objects inherit: a topic may be named `constructor` or `__proto__`.
  const found = Object.create(null);
  for (const name of names) {
    const [topic, number] = JSON.parse(name);
    (found[topic] ??= []).push(number);
  }
  return found;
}
