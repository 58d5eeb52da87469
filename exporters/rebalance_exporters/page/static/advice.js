// The table of the rebalances of a group in the last day that settings would have avoided; it updates itself.

import { el, grid, refill, section } from "./dom.js";
import { UNKNOWN, amount, plural, sum } from "./figures.js";
import { adviceApi } from "./links.js";
import { LoadedView } from "./view.js";

/** Minimum interval between requests for a group that rebalances again and again. */
const ASKED_AGAIN_MS = 10_000;

export class AdvicePart extends LoadedView {
  #timer = null;

  constructor() {
    super(el("div", { class: "part-advice" }));
  }

  close() {
    super.close();
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Reload after a while, because something happened to the group. */
  askLater() {
    if (this.target === null || this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.load();
    }, ASKED_AGAIN_MS);
  }

  forget() {
    this.answer = null;
  }

  /** Return the addresses to load; none for a past stretch, because advice covers the last day only. */
  addresses() {
    const { cluster, group, stretch } = this.target;
    return stretch === null ? [adviceApi(cluster, group)] : [];
  }

  keep(answer) {
    this.answer = answer;
  }

  /** Draw the table; nothing until it is loaded. The group's view shows errors. */
  draw() {
    const estimates = this.answer?.estimates ?? [];
    refill(this.root, JSON.stringify([estimates, this.answer?.sums, this.answer?.useless]), () => (estimates.length ? adviceSection(this.answer) : null));
  }
}

function adviceSection({ estimates, sums, useless }) {
  const happened = `Of ${plural(sums.rebalances, "rebalance")} in the last day with ${sum(sums.lost_partition_ms)} of lost time.`;
  return section("What settings would have avoided",
    el("p", { class: "quiet" }, happened, " A range runs from what the rebalances prove to what they leave open. Several settings may avoid the same rebalance."),
    grid("Settings, the one that would have avoided most first", ["Setting", "Now", "To", "Rebalances", "Lost time", "Costs"], estimates.map(cells), [3, 4]),
    useless.length ? el("p", { class: "quiet" }, `Would have avoided none: ${useless.join(", ")}.`) : null);
}

function cells(estimate) {
  const { rebalances, lost_partition_ms: lost } = estimate.avoided;
  return [
    el("code", {}, breakable(estimate.setting)), estimate.current ?? UNKNOWN, el("strong", {}, estimate.proposed),
    between(rebalances, amount), between(lost, sum), [estimate.cost, el("span", { class: "below" }, `From: ${estimate.basis}`)],
  ];
}

/** Return a setting's name that may be broken before its dots if it is too long. */
function breakable(name) {
  return name.split(".").map((each, place) => (place ? [el("wbr", {}), `.${each}`] : each));
}

/** Return the text of a number that lies between two bounds, as in the terminal. */
function between({ low, high }, write) {
  if (write(low) === write(high)) return write(low);
  return low ? `${write(low)} to ${write(high)}` : `at most ${write(high)}`;
}
