// State of all groups: filled from the overview, updated by events. Independent of the page's elements.

import { EventName, FindingState } from "./sets.js";

/** Return the key of a group. */
export function keyOf(thing) {
  return JSON.stringify([thing.cluster, thing.group]);
}

export class Store {
  constructor() {
    /** Rows of the overview by key. */
    this.rows = new Map();
    /** Firing findings about whole clusters by id. */
    this.clusterFindings = new Map();
    /** {at_ms, ready, ready_text, data_age_ms}; null until the first is received. */
    this.status = null;
    this.version = null;
    this.isLoaded = false;
    this.statusAt = 0;
  }

  /** The present time of the exporter's clock, in epoch milliseconds: ages are computed by it, not by this machine's clock. */
  get nowMs() {
    return this.status === null ? Date.now() : this.status.at_ms + performance.now() - this.statusAt;
  }

  /** Present age of the data in milliseconds; null if not known. */
  get dataAgeMs() {
    if (this.status === null || this.status.data_age_ms === null) return null;
    return this.status.data_age_ms + performance.now() - this.statusAt;
  }

  /** Replace all content by an overview. */
  load(overview, findings) {
    this.rows = new Map(overview.groups.map((row) => [keyOf(row), row]));
    this.clusterFindings = new Map();
    for (const finding of findings) this.#takeFinding(finding);
    this.version = overview.version;
    this.isLoaded = true;
    this.#takeStatus(overview);
  }

  /** Apply one event. */
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
