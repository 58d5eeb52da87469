// One finding in full: summary, evidence, rejected alternatives, missing information, and what to change.

import { el, named, timed } from "./dom.js";
import { plural } from "./figures.js";
import { rebalanceLink } from "./links.js";
import { FindingState, SOURCES } from "./sets.js";
import { memberName, severityBadge, words } from "./words.js";

const LINKED = 6;

/** Make the article of a finding. `rebalanceId` is the rebalance that it is shown with, which needs no link. */
export function findingArticle(finding, { clock, nowMs, rebalanceId = null }) {
  return el("article", { class: `finding ${finding.state}`, "data-rule": finding.rule },
    el("div", { class: "wide-part" }, el("h3", {}, severityBadge(finding.severity), " ", words(finding.rule), finding.variant === null ? null : ` (${words(finding.variant)})`),
    el("p", { class: "summary" }, finding.summary),
    el("p", { class: "quiet" }, standing(finding, clock, nowMs))),
    el("div", {}, advice(finding), because(finding)),
    el("div", {},
      listing("Not", finding.alternatives.map((each) => [el("strong", {}, words(each.rule)), `${each.impossible ? " (impossible)" : ""}: ${each.why_not}`])),
      listing("Missing", finding.missing),
      who(finding),
      affected(finding, rebalanceId)));
}

/** Return a finding from an event with what its advice would have avoided, which events lack, taken from the known finding. */
export function withNumbers(finding, known) {
  const before = new Map((known?.advice ?? []).map((each) => [`${each.parameter} ${each.proposed}`, each]));
  return { ...finding, advice: finding.advice.map((each) => ({ ...before.get(`${each.parameter} ${each.proposed}`), ...each })) };
}

function standing(finding, clock, nowMs) {
  const since = finding.state === FindingState.FIRING ? "since " : "resolved; since ";
  const of = finding.rebalances ? `, ${finding.primary ? "cause of" : "seen in"} ${plural(finding.rebalances, "rebalance")}` : "";
  return [`${Math.round(finding.confidence * 100)}% sure, ${since}`, timed(finding.started_at_ms, clock.near(finding.started_at_ms, nowMs)), of];
}

/** Make one line with what to change first, as in notifications: a setting whose value is known, else a setting; null without advice. */
export function firstChange(finding) {
  const weight = (each) => 2 * (each.current === null) + !each.parameter.includes(".");
  const [first] = [...finding.advice].sort((a, b) => weight(a) - weight(b));
  return first === undefined ? null : el("p", { class: "first-change" }, "Change ", adviceText(first));
}

/** Make the proposed value of a parameter, and its present one if known. */
export function adviceText(advice) {
  return [
    el("code", {}, advice.parameter), ": ",
    advice.current === null ? null : [el("span", { class: "current" }, advice.current), el("span", { "aria-label": " to " }, " → ")],
    el("strong", { class: "proposed" }, advice.proposed),
  ];
}

function advice(finding) {
  if (!finding.advice.length) return null;
  return el("div", { class: "advice" }, el("h4", {}, "Change"), el("ol", {}, finding.advice.map((each) => el("li", {},
    adviceText(each),
    /^-?$/.test(each.formula.trim()) ? null : el("span", { class: "formula" }, `from: ${each.formula}`),
    each.text ? el("span", { class: "avoided" }, each.text) : null))));
}

function because(finding) {
  if (!finding.evidence.length) return null;
  const rows = finding.evidence.map((each) => el("li", {},
    el("span", { class: "seen" }, each.against ? "but " : null, el("span", { class: "field" }, each.field), " ", el("strong", {}, each.value)),
    el("span", { class: "meaning" }, each.rule, el("span", { class: "source" }, SOURCES[each.source] ?? each.source))));
  return el("div", {}, el("h4", {}, "Because"), el("ul", { class: "evidence" }, rows));
}

function listing(label, items) {
  if (!items.length) return null;
  return el("div", {}, el("h4", {}, label), el("ul", {}, items.map((each) => el("li", {}, each))));
}

function who(finding) {
  // A member that rejoined has several ids but one name.
  const names = [...new Set(finding.subject.members.map(memberName))];
  const parts = finding.subject.partitions;
  if (!names.length && !parts.length) return null;
  return el("div", {}, el("h4", {}, "Who"), el("ul", { class: "chips" }, [...names, ...parts].map((each) => el("li", {}, named(each)))));
}

function affected(finding, rebalanceId) {
  const ids = finding.rebalance_ids.filter((each) => each !== rebalanceId);
  if (!ids.length) return null;
  const links = ids.slice(-LINKED).map((id) => el("li", {}, el("a", { href: rebalanceLink(finding.cluster, finding.group, id) }, id)));
  const label = rebalanceId === null ? "Rebalances" : "Other rebalances of this cause";
  return el("div", {}, el("h4", {}, label), el("ul", { class: "chips" }, links),
    ids.length > LINKED ? el("p", { class: "quiet" }, `and ${ids.length - LINKED} before them`) : null);
}
