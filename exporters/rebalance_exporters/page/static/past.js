// All groups in a stretch of time that is over: which lost most, by what, and what to set. Made from the API's report.

import { el, named, refill } from "./dom.js";
import { UNKNOWN, amount, plural, span } from "./figures.js";
import { errorNote, grid } from "./group.js";
import { ask, fleetLink, groupLink, pastLink, reportApi } from "./links.js";
import { stretchForm, stretchText } from "./stretch.js";
import { words } from "./words.js";

/** The most that the API tells of. */
const GROUPS = 200;

export class PastView {
  #target = null;
  #visit = 0;

  constructor(root, store, readClock) {
    this.root = root;
    this.store = store;
    this.readClock = readClock;
    this.part = el("div", {});
    this.root.append(this.part);
  }

  open(target) {
    this.#target = target;
    this.report = this.error = null;
    this.edition = (this.edition ?? 0) + 1;
    return target.stretch === null ? this.render() : this.load();
  }

  close() {
    this.#target = null;
    this.#visit += 1;
  }

  async load() {
    const visit = (this.#visit += 1);
    this.render();
    try {
      const report = await ask(reportApi(this.#target.stretch, this.#target.cluster, GROUPS));
      if (visit !== this.#visit) return;
      this.report = report;
      this.error = null;
    } catch (error) {
      if (visit !== this.#visit) return;
      this.error = error;
    }
    this.edition += 1;
    this.render();
  }

  render() {
    if (this.#target === null || this.root.hidden) return;
    const clock = this.readClock();
    refill(this.part, `${this.edition} ${clock.zone} ${this.store.isLoaded}`, () => this.#view(clock));
  }

  #view(clock) {
    const { stretch, cluster } = this.#target, { report } = this;
    const linkOf = (each) => (each === null ? fleetLink(cluster) : pastLink(each, cluster));
    return [
      el("p", { class: "crumbs" }, el("a", { href: fleetLink(cluster) }, "← All groups now")),
      el("h1", { tabindex: "-1" }, stretch === null ? "Choose a stretch of time" : stretchText(stretch, clock)),
      cluster === null ? null : el("p", { class: "quiet" }, "cluster ", named(cluster)),
      stretchForm({ stretch, nowMs: this.store.nowMs, clock, linkOf }),
      this.error === null ? null : errorNote(this.error, cluster ?? ""),
      stretch === null || this.error !== null ? null : report === null ? el("p", { class: "quiet" }, "Loading …") : this.#found(report, clock),
    ];
  }

  #found(report, clock) {
    const { stretch } = this.#target;
    const several = new Set(report.groups.map((each) => each.cluster)).size > 1;
    const shown = report.groups.filter((each) => each.sums.rebalances > 0);
    const quiet = report.known_groups - report.rebalanced_groups;
    return [
      el("p", { class: "lead" }, `${plural(report.rebalanced_groups, "group")} rebalanced, ${plural(report.sums.rebalances, "time")}; ${time(report.sums.lost_partition_ms)} of partition time lost.`, quiet > 0 ? ` ${plural(quiet, "group")} did not.` : null),
      forgotten(report, clock),
      shown.length ? el("section", { "aria-label": "Groups" }, el("h2", {}, "Groups by time lost"),
        grid("Groups by time lost", ["Group", "Causes", "Lost", "Rebalances", "Rebalancing", "Slowest"], shown.map((each) => groupCells(each, stretch, several)), [2, 3, 4, 5]),
        report.rebalanced_groups > shown.length ? el("p", { class: "quiet" }, `and ${report.rebalanced_groups - shown.length} more`) : null) : null,
      report.settings.length ? el("section", { "aria-label": "Settings" }, el("h2", {}, "What to set"),
        grid("Settings to change, by what their causes cost", ["Setting", "Against", "Groups", "Lost"], report.settings.map((each) => settingCells(each, stretch)), [3])) : null,
    ];
  }
}

/** Say what is not known of the stretch because it is no longer kept. */
function forgotten(report, clock) {
  const keptSince = Math.max(report.kept_since_ms ?? 0, report.dropped_until_ms ?? 0);
  if (report.kept_since_ms === null || keptSince <= report.since_ms) return null;
  return el("p", { class: "quiet" }, `Rebalances are kept since ${clock.moment(keptSince)}.`);
}

function time(ms) {
  return ms ? span(ms) : "0 s";
}

function groupCells(each, stretch, several) {
  const below = [several ? each.cluster : null, each.owner].filter(Boolean);
  return [
    [el("a", { href: groupLink(each.cluster, each.group, stretch), class: "name" }, named(each.group)), below.length ? el("span", { class: "below" }, below.flatMap((text, place) => [place ? " · " : null, named(text)])) : null],
    each.causes.length ? each.causes.map((cause, place) => `${place ? ", " : ""}${words(cause.rule)} (${cause.sums.rebalances})`) : UNKNOWN,
    time(each.sums.lost_partition_ms), amount(each.sums.rebalances), time(each.sums.rebalancing_ms), span(each.slowest_ms),
  ];
}

function settingCells(each, stretch) {
  return [
    [el("code", {}, each.parameter), ": ", each.current === null ? null : [each.current, el("span", { "aria-label": " to " }, " → ")], el("strong", {}, each.proposed)],
    each.rules.map(words).join(", "),
    [each.groups.flatMap((group, place) => [place ? ", " : null, el("a", { href: groupLink(group.cluster, group.group, stretch) }, named(group.group))]), each.group_count > each.groups.length ? ` and ${each.group_count - each.groups.length} more` : null],
    time(each.sums.lost_partition_ms),
  ];
}
