// The table of all groups, by default the one that lost most time first, and a one-line summary.
//
// Each row is an object with its cells; only cells whose text changed are rewritten, and only misplaced rows are moved.

import { el, named, nodes, refill, setText } from "./dom.js";
import { UNKNOWN, amount, atLeast, inMs, percent, plural, sum } from "./figures.js";
import { fleetLink, groupLink, pastLink } from "./links.js";
import { Severity } from "./sets.js";
import { keyOf } from "./store.js";
import { stretchForm } from "./stretch.js";
import { compare, isSilenced, isUnsettled, nameCell, orderFindings, severityBadge, severityRank, silenceText, stateMark, stateText, words } from "./words.js";

const WINDOW = "15m";
const FIRST_ROWS = 50;
/** Number of further rows drawn per frame until all requested rows are shown. */
const ROWS_PER_FRAME = 50;

const lostOf = (row) => row.windows[WINDOW]?.lost_partition_seconds ?? 0;
const rebalancesOf = (row) => row.windows[WINDOW]?.rebalances ?? 0;
const ratioOf = (row) => row.windows[WINDOW]?.rebalancing_ratio ?? 0;
const nameOf = (row) => [row.group, row.cluster];
const byLost = (row) => [-lostOf(row), -ratioOf(row), -(row.lost_partition_seconds_total ?? 0), ...nameOf(row)];
const gravest = (row) => row.findings.reduce((most, each) => Math.max(most, severityRank(each.severity) + 1), 0);

/** The sort orders, as [label, sort key of a row]. Numbers are in descending order, names in ascending order. */
export const SORTS = {
  lost: ["time lost", byLost],
  finding: ["finding", (row) => [-gravest(row), ...byLost(row)]],
  rebalances: ["rebalances", (row) => [-rebalancesOf(row), ...byLost(row)]],
  share: ["time rebalancing", (row) => [-ratioOf(row), ...byLost(row)]],
  lag: ["lag", (row) => [-(row.lag ?? 0), ...byLost(row)]],
  members: ["members", (row) => [-(row.members ?? 0), ...nameOf(row)]],
  state: ["state", (row) => [row.state === null ? 2 : isUnsettled(row) ? 0 : 1, row.state ?? "", ...nameOf(row)]],
  group: ["name", nameOf],
};

function lostText(row) {
  return sum(inMs(row.windows[WINDOW]?.lost_partition_seconds));
}

function groupCell(row, _now, several) {
  return {
    text: JSON.stringify([row.group, row.cluster, row.owner, several]),
    make: () => nameCell(row, groupLink(row.cluster, row.group), several),
  };
}

function stateCell(row, nowMs) {
  const text = stateText(row, nowMs);
  return {
    text,
    make: () => el("span", { class: `${isUnsettled(row) ? "unsettled" : "settled"} state-${row.state}` }, el("span", { class: "mark", "aria-hidden": "true" }, stateMark(row.state)), text),
  };
}

function findingCell(row) {
  const held = row.silence ? silenceText(row.silence) : null;
  if (!row.findings.length) return held === null ? { text: UNKNOWN } : { text: held, make: () => el("span", { class: "quiet" }, held) };
  const [worst] = orderFindings(row.findings);
  const further = row.findings.length - 1;
  return {
    text: `${worst.severity}\n${worst.rule}\n${worst.summary}\n${further}\n${held}`,
    make: () => [
      held === null ? null : el("span", { class: "quiet" }, `${held}: `),
      severityBadge(worst.severity), " ", words(worst.rule), further ? ` +${further}` : null,
      el("span", { class: "below" }, worst.summary),
    ],
  };
}

function shareCell(row) {
  if (row.windows[WINDOW] === undefined) return { text: UNKNOWN };
  const ratio = ratioOf(row);
  return {
    text: percent(ratio),
    make: () => {
      const bar = el("span", { class: "bar-fill" });
      bar.style.width = `${Math.min(100, Math.ceil(ratio * 100))}%`;
      return [ratio ? el("span", { class: "bar-track", "aria-hidden": "true" }, bar) : null, percent(ratio)];
    },
  };
}

const plain = (read) => (row) => ({ text: read(row) });

/** The columns: heading, sort order of its button, class, and function that returns the cell of a row as {text, make}. */
const COLUMNS = [
  { heading: "Group", sort: "group", kind: "wide", cell: groupCell },
  { heading: "State", sort: "state", kind: "state", cell: stateCell },
  { heading: "Finding", sort: "finding", kind: "wide finding-cell", cell: findingCell },
  { heading: "Lost (15m)", sort: "lost", kind: "number", cell: plain(lostText) },
  { heading: "Rebalances (15m)", sort: "rebalances", kind: "number", cell: plain((row) => atLeast(row, row.windows[WINDOW]?.rebalances ?? null)) },
  { heading: "Rebalancing (15m)", sort: "share", kind: "number", cell: shareCell },
  { heading: "Lag", sort: "lag", kind: "number", cell: plain((row) => amount(row.lag)) },
  { heading: "#Members", sort: "members", kind: "number", cell: plain((row) => amount(row.members)) },
  { heading: "#Partitions", kind: "number minor least", cell: plain((row) => amount(row.assigned_partitions)) },
  { heading: "Coordinator", kind: "number minor", cell: plain((row) => (row.coordinator === null ? UNKNOWN : `${row.coordinator}`)) },
  { heading: "Strategy", kind: "minor least", cell: plain((row) => row.protocol ?? UNKNOWN) },
];

export class FleetView {
  #rows = new Map();
  #all = false;
  #limit = FIRST_ROWS;
  #growing = null;
  #sort = "lost";
  #cluster = null;

  constructor(root, store, readClock) {
    this.root = root;
    this.store = store;
    this.readClock = readClock;
    this.find = (id) => root.querySelector(`#${id}`);
    this.filter = this.find("filter");
    this.select = this.find("sort");
    this.clusters = this.find("cluster");
    this.body = root.querySelector("tbody");
    this.#makeHead();
    this.select.append(...Object.entries(SORTS).map(([value, [text]]) => el("option", { value }, text)));
    this.select.addEventListener("change", () => this.#sortBy(this.select.value));
    this.clusters.addEventListener("change", () => (location.hash = fleetLink(this.clusters.value === "" ? null : this.clusters.value.slice(1))));
    this.find("look-back").addEventListener("toggle", () => this.#makeLookBack());
    this.filter.addEventListener("input", () => this.render());
    this.find("tools").addEventListener("submit", (event) => event.preventDefault());
    this.find("show-all").addEventListener("click", () => this.#toggleAll());
    this.body.addEventListener("keydown", (event) => this.#walk(event));
  }

  /** Show the groups of one cluster, or of all. */
  open(target) {
    this.#cluster = target.cluster ?? null;
    this.#makeLookBack();
  }

  #makeLookBack() {
    const cluster = this.#cluster, clock = this.readClock();
    this.find("look-back-form").replaceChildren(stretchForm({ stretch: null, nowMs: this.store.nowMs, clock, linkOf: (stretch) => (stretch === null ? fleetLink(cluster) : pastLink(stretch, cluster)) }));
  }

  /** Offer the existing clusters, and the one in the address. */
  #showClusters(names) {
    const known = [...new Set([...names, ...(this.#cluster === null ? [] : [this.#cluster])])].sort();
    const isOne = known.length < 2;
    this.clusters.hidden = this.find("cluster-label").hidden = isOne;
    // Prefixed with a sign, because a name may be empty.
    refill(this.clusters, JSON.stringify(known), () => [el("option", { value: "" }, "all"), known.map((each) => el("option", { value: `=${each}` }, each))]);
    this.clusters.value = this.#cluster === null ? "" : `=${this.#cluster}`;
  }

  #makeHead() {
    this.heads = COLUMNS.map((column) => {
      const button = column.sort ? el("button", { type: "button" }, column.heading) : column.heading;
      if (column.sort) button.addEventListener("click", () => this.#sortBy(column.sort));
      return el("th", { scope: "col", role: "columnheader", class: column.kind }, button);
    });
    this.root.querySelector("thead tr").append(...this.heads);
  }

  #sortBy(sort) {
    // In another order all rows are misplaced: draw them step by step again.
    this.#limit = FIRST_ROWS;
    this.#sort = sort;
    this.select.value = sort;
    this.render();
  }

  #toggleAll() {
    this.#all = !this.#all;
    this.#limit = FIRST_ROWS;
    this.render();
  }

  /** Draw more rows in the next frame if not all requested rows are shown. */
  #drawMore(matching) {
    if (!this.#all || this.#limit >= matching || this.#growing !== null) return;
    this.#growing = requestAnimationFrame(() => {
      this.#growing = null;
      this.#limit += ROWS_PER_FRAME;
      if (!this.root.hidden) this.render();
    });
  }

  /** Move the focus from group to group with the arrow keys. */
  #walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = event.target.closest("tr");
    if (step === undefined || row === null) return;
    const next = step === 1 ? row.nextElementSibling : row.previousElementSibling;
    event.preventDefault();
    (next?.querySelector("a") ?? (step === -1 ? this.filter : null))?.focus();
  }

  /** Update the view. */
  render() {
    const clusters = new Set([...this.store.rows.values()].map((row) => row.cluster));
    this.#showClusters(clusters);
    const rows = [...this.store.rows.values()].filter((row) => this.#cluster === null || row.cluster === this.#cluster);
    const several = clusters.size > 1 && this.#cluster === null;
    const wanted = this.filter.value.trim().toLowerCase();
    const matching = wanted ? rows.filter((row) => matches(row, wanted)) : rows;
    const read = SORTS[this.#sort][1];
    const sorted = matching.map((row) => [read(row), row]).sort((a, b) => compare(a[0], b[0])).map((pair) => pair[1]);
    this.#showRows(sorted.slice(0, this.#limit), several);
    this.#drawMore(matching.length);
    this.#showAround(rows, matching.length, wanted !== "");
  }

  #showRows(shown, several) {
    const nowMs = this.store.nowMs;
    const stay = new Set(shown.map(keyOf));
    const focused = document.activeElement;
    for (const [key, row] of this.#rows) {
      if (stay.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
    }
    let place = this.body.firstElementChild;
    for (const data of shown) {
      const row = this.#rowOf(data);
      row.update(data, nowMs, several);
      if (row.element === place) place = place.nextElementSibling;
      else this.body.insertBefore(row.element, place);
    }
    // Moving a row removes the focus within it.
    if (focused !== document.activeElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  #rowOf(data) {
    const key = keyOf(data);
    if (!this.#rows.has(key)) this.#rows.set(key, new TableRow());
    return this.#rows.get(key);
  }

  #showAround(rows, matching, isFiltered) {
    const unready = !this.store.isLoaded;
    setText(this.find("verdict"), unready ? "Looking at the groups …" : verdict(rows));
    setText(this.find("matches"), isFiltered ? `${plural(matching, "group")} of ${rows.length} match` : "");
    this.find("more").hidden = matching <= FIRST_ROWS;
    setText(this.find("show-all"), this.#all ? `Show the first ${FIRST_ROWS}` : `Show all ${matching} groups`);
    const sorted = COLUMNS.map((column) => (column.sort !== this.#sort ? null : column.sort === "group" || column.sort === "state" ? "ascending" : "descending"));
    this.heads.forEach((head, place) => (sorted[place] ? head.setAttribute("aria-sort", sorted[place]) : head.removeAttribute("aria-sort")));
    const found = [...this.store.clusterFindings.values()].filter((each) => this.#cluster === null || each.cluster === this.#cluster);
    refill(this.find("cluster-findings"), JSON.stringify(found.map((each) => [each.finding_id, each.updated_at_ms])), () => found.map(clusterNotice));
  }
}

function clusterNotice(finding) {
  return el("li", {}, severityBadge(finding.severity), " cluster ", named(finding.cluster), `: ${words(finding.rule)}: ${finding.summary}`);
}

/** One row of the table, with the present text of its cells. */
class TableRow {
  constructor() {
    this.cells = COLUMNS.map((column, place) => {
      const attributes = { role: place ? "cell" : "rowheader", class: column.kind, "data-label": column.heading };
      return { element: place ? el("td", attributes) : el("th", { ...attributes, scope: "row" }), text: null };
    });
    this.element = el("tr", { role: "row" }, this.cells.map((each) => each.element));
  }

  update(data, nowMs, several) {
    this.element.classList.toggle("is-unsettled", isUnsettled(data));
    COLUMNS.forEach((column, place) => {
      const cell = column.cell(data, nowMs, several), known = this.cells[place];
      if (cell.text === known.text) return;
      known.text = cell.text;
      const focused = known.element.contains(document.activeElement);
      known.element.replaceChildren(...nodes([cell.make ? cell.make() : cell.text]));
      known.element.classList.toggle("nothing", cell.text === UNKNOWN || cell.text === "0" || cell.text === "0%" || cell.text === "0 s");
      if (focused) known.element.querySelector("a")?.focus();
    });
  }
}

function matches(row, wanted) {
  const findings = row.findings.flatMap((each) => [each.rule, words(each.rule), each.severity]);
  return [row.group, row.cluster, row.owner, row.state, row.protocol, ...findings].some((text) => text?.toLowerCase().includes(wanted));
}

/** Return one line with the number of groups and their condition. */
export function verdict(rows) {
  if (!rows.length) return "No consumer group has been seen yet.";
  const all = plural(rows.length, "group");
  const acting = rows.filter((row) => !isSilenced(row) && row.findings.some((each) => severityRank(each.severity) > 0));
  const unsettled = rows.filter(isUnsettled).length;
  const now = unsettled ? `${unsettled} rebalancing now` : "none rebalancing now";
  if (!acting.length) return `None of ${all} has a finding to act on; ${now}.`;
  const paging = acting.filter((row) => gravest(row) > severityRank(Severity.TICKET) + 1).length;
  const verb = acting.length === 1 ? "has" : "have";
  const grave = paging ? `, ${paging} to act on at once` : "";
  return `${acting.length} of ${all} ${verb} a finding to act on${grave}; ${now}.`;
}
