// What is known of all groups: filled by the overview, kept up by events. Knows no element of the page.

import { EventName, FindingState } from "./sets.js";

/** Return what a group is known by. */
export function keyOf(thing) {
  return JSON.stringify([thing.cluster, thing.group]);
}

export class Store {
  constructor() {
    /** Rows of the overview by key. */
    this.rows = new Map();
    /** Firing findings about whole clusters by id. */
    this.clusterFindings = new Map();
    /** {at_ms, ready, ready_text, data_age_ms}, null before anything was heard. */
    this.status = null;
    this.version = null;
    this.isLoaded = false;
    this.statusAt = 0;
  }

  /** The exporter's time now, as epoch milliseconds: what is shown is reckoned by its clock, not by this machine's. */
  get nowMs() {
    return this.status === null ? Date.now() : this.status.at_ms + performance.now() - this.statusAt;
  }

  /** How old the data is now; null while that is not known. */
  get dataAgeMs() {
    if (this.status === null || this.status.data_age_ms === null) return null;
    return this.status.data_age_ms + performance.now() - this.statusAt;
  }

  /** Take an overview in place of all that was known. */
  load(overview, findings) {
    this.rows = new Map(overview.groups.map((row) => [keyOf(row), row]));
    this.clusterFindings = new Map();
    for (const finding of findings) this.#takeFinding(finding);
    this.version = overview.version;
    this.isLoaded = true;
    this.#takeStatus(overview);
  }

  /** Take one event. */
  take(name, data) {
    if (name === EventName.GROUP) this.rows.set(keyOf(data), data);
    else if (name === EventName.GONE) this.rows.delete(keyOf(data));
    else if (name === EventName.FINDING) this.#takeFinding(data);
    else if (name === EventName.STATUS) this.#takeStatus(data);
    else if (name === EventName.HELLO) this.version = data.version;
  }

  #takeFinding(finding) {
    if (finding.group !== "") return;
    if (finding.state === FindingState.FIRING) this.clusterFindings.set(finding.finding_id, finding);
    else this.clusterFindings.delete(finding.finding_id);
  }

  #takeStatus(status) {
    this.status = status;
    this.statusAt = performance.now();
  }
}
