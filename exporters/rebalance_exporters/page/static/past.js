// All groups in a past stretch of time: which lost most, the causes, and what to set. Made from the API's report.

import { el, grid, named, refill, section } from "./dom.js";
import { UNKNOWN, amount, plural, span, sum } from "./figures.js";
import { adviceText } from "./finding.js";
import { fleetLink, groupLink, pastLink, reportApi } from "./links.js";
import { stretchForm, stretchText } from "./stretch.js";
import { LoadedView } from "./view.js";
import { nameCell, words } from "./words.js";

/** Maximum number of groups that the API lists. */
const GROUPS = 200;

export class PastView extends LoadedView {
  constructor(root, store, readClock) {
    super(root, store, readClock);
    this.part = el("div", {});
    this.root.append(this.part);
  }

  forget() {
    this.report = null;
  }

  /** Return the address to load; none until a stretch of time is chosen. */
  addresses() {
    const { stretch, cluster } = this.target;
    return stretch === null ? [] : [reportApi(stretch, cluster, GROUPS)];
  }

  keep(report) {
    this.report = report;
  }

  draw() {
    const clock = this.readClock();
    refill(this.part, `${this.edition} ${clock.zone} ${this.store.isLoaded}`, () => this.#view(clock));
  }

  #view(clock) {
    const { stretch, cluster } = this.target, { report } = this;
    const linkOf = (each) => (each === null ? fleetLink(cluster) : pastLink(each, cluster));
    return [
      el("p", { class: "crumbs" }, el("a", { href: fleetLink(cluster) }, "← All groups now")),
      el("h1", { tabindex: "-1" }, stretch === null ? "Choose a stretch of time" : stretchText(stretch, clock)),
      cluster === null ? null : el("p", { class: "quiet" }, "cluster ", named(cluster)),
      stretchForm({ stretch, nowMs: this.store.nowMs, clock, linkOf }),
      stretch === null ? null : report === null ? this.waiting() : [this.errorNote(), this.#found(report, clock)],
    ];
  }

  #found(report, clock) {
    const { stretch } = this.target;
    const several = new Set(report.groups.map((each) => each.cluster)).size > 1;
    const shown = report.groups.filter((each) => each.sums.rebalances > 0);
    const quiet = report.known_groups - report.rebalanced_groups;
    return [
      el("p", { class: "lead" }, `${plural(report.rebalanced_groups, "group")} rebalanced, ${plural(report.sums.rebalances, "time")}; ${sum(report.sums.lost_partition_ms)} of partition time lost.`, quiet > 0 ? ` ${plural(quiet, "group")} did not.` : null),
      forgotten(report, clock),
      shown.length ? section("Groups by time lost",
        grid("Groups by time lost", ["Group", "Causes", "Lost", "Rebalances", "Rebalancing", "Slowest"], shown.map((each) => groupCells(each, stretch, several)), [2, 3, 4, 5]),
        report.rebalanced_groups > shown.length ? el("p", { class: "quiet" }, `and ${report.rebalanced_groups - shown.length} more`) : null) : null,
      report.settings.length ? section("What to set",
        grid("Settings to change, by what their causes cost", ["Setting", "Against", "Groups", "Lost"], report.settings.map((each) => settingCells(each, stretch)), [3])) : null,
    ];
  }
}

/** Make a note if part of the stretch is no longer kept, else null. */
function forgotten(report, clock) {
  const keptSince = Math.max(report.kept_since_ms ?? 0, report.dropped_until_ms ?? 0);
  if (report.kept_since_ms === null || keptSince <= report.since_ms) return null;
  return el("p", { class: "quiet" }, `Rebalances are kept since ${clock.moment(keptSince)}.`);
}

function groupCells(each, stretch, several) {
  return [
    nameCell(each, groupLink(each.cluster, each.group, stretch), several),
    each.causes.length ? each.causes.map((cause, place) => `${place ? ", " : ""}${words(cause.rule)} (${cause.sums.rebalances})`) : UNKNOWN,
    sum(each.sums.lost_partition_ms), amount(each.sums.rebalances), sum(each.sums.rebalancing_ms), span(each.slowest_ms),
  ];
}

function settingCells(each, stretch) {
  return [
    adviceText(each),
    each.rules.map(words).join(", "),
    [each.groups.flatMap((group, place) => [place ? ", " : null, el("a", { href: groupLink(group.cluster, group.group, stretch) }, named(group.group))]), each.group_count > each.groups.length ? ` and ${each.group_count - each.groups.length} more` : null],
    sum(each.sums.lost_partition_ms),
  ];
}
