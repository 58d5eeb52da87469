// What settings would have avoided of a group's rebalances in the last day: a table that keeps itself up.

import { el, refill } from "./dom.js";
import { UNKNOWN, amount, plural, span } from "./figures.js";
import { grid } from "./group.js";
import { adviceApi, ask } from "./links.js";

/** A group that rebalances again and again is asked about no more often. */
const ASKED_AGAIN_MS = 10_000;

export class AdvicePart {
  #visit = 0;
  #timer = null;
  #target = null;

  constructor() {
    this.root = el("div", { class: "part-advice" });
    this.answer = null;
  }

  /** Show a group's advice as soon as it is there; nothing until then, nor where it is looked back: advice is of the last day. */
  open(target) {
    this.close();
    this.#render();
    if (target.stretch !== null) return Promise.resolve();
    this.#target = target;
    return this.#load();
  }

  close() {
    this.#visit += 1;
    this.#target = this.answer = null;
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Ask again in a while: something happened to the group. */
  touch() {
    if (this.#target === null || this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#load();
    }, ASKED_AGAIN_MS);
  }

  async #load() {
    const { cluster, group } = this.#target;
    const visit = (this.#visit += 1);
    // Where it fails, the group's view says so.
    const answer = await ask(adviceApi(cluster, group)).catch(() => null);
    if (visit !== this.#visit) return;
    this.answer = answer ?? this.answer;
    this.#render();
  }

  #render() {
    const estimates = this.answer?.estimates ?? [];
    refill(this.root, JSON.stringify([estimates, this.answer?.sums, this.answer?.useless]), () => (estimates.length ? section(this.answer) : null));
  }
}

function section({ estimates, sums, useless }) {
  const happened = `Of ${plural(sums.rebalances, "rebalance")} in the last day with ${length(sums.lost_partition_ms)} of lost time.`;
  return el("section", { "aria-label": "Advice" }, el("h2", {}, "What settings would have avoided"),
    el("p", { class: "quiet" }, happened, " From what the rebalances show to what they leave open; several settings may avoid the same one."),
    grid("Settings, the one that would have avoided most first", ["Setting", "Now", "To", "Rebalances", "Lost time", "Costs"], estimates.map(cells), [3, 4]),
    useless.length ? el("p", { class: "quiet" }, `Would have avoided none: ${useless.join(", ")}.`) : null);
}

function cells(estimate) {
  const { rebalances, lost_partition_ms: lost } = estimate.avoided;
  return [
    el("code", {}, breakable(estimate.setting)), estimate.current ?? UNKNOWN, el("strong", {}, estimate.proposed),
    between(rebalances, amount), between(lost, length), [estimate.cost, el("span", { class: "below" }, `From: ${estimate.basis}`)],
  ];
}

/** Let a setting's name be broken before its dots where it is too long. */
function breakable(name) {
  return name.split(".").map((each, place) => (place ? [el("wbr", {}), `.${each}`] : each));
}

/** Write a number that lies between two others, as the terminal does. */
function between({ low, high }, tell) {
  if (tell(low) === tell(high)) return tell(low);
  return low ? `${tell(low)} to ${tell(high)}` : `at most ${tell(high)}`;
}

function length(ms) {
  return ms ? span(ms) : "0 s";
}
