// Base of the views that load from the API: the visited target, loading and its errors, and redrawing.

import { el, named } from "./dom.js";
import { ApiError, ask, groupLink } from "./links.js";
import { keyOf } from "./store.js";

/**
 * A view that loads what it shows from the API. A subclass returns what to load (`addresses`), stores the responses
 * (`keep`), discards them (`forget`) and draws (`draw`), and may apply events about its group (`apply`); the rest is here.
 */
export class LoadedView {
  /** The shown target, as `readHash` returns it; null while another view is shown. */
  target = null;
  /** The error of the last attempt to load; null if it succeeded. */
  error = null;
  /** Incremented with every change to what is drawn, except in store and clock. */
  edition = 0;
  #visit = 0;
  /** Events received while loading; null when nothing is being loaded. */
  #meanwhile = null;

  constructor(root, store = null, readClock = null) {
    this.root = root;
    this.store = store;
    this.readClock = readClock;
  }

  /** Show a target: known data at once, the rest when it is loaded. */
  open(target) {
    this.target = target;
    this.error = null;
    this.forget();
    this.touch();
    return this.load();
  }

  /** End the visit: responses to pending requests are ignored. */
  close() {
    this.target = null;
    this.#visit += 1;
    this.#meanwhile = null;
  }

  /** Reload everything. If it fails, the previous data stay. */
  async load() {
    const addresses = this.addresses();
    if (!addresses.length) return;
    const visit = (this.#visit += 1);
    this.#meanwhile = [];
    let answers = null, error = null;
    try {
      answers = await Promise.all(addresses.map(ask));
    } catch (thrown) {
      error = thrown;
    }
    if (visit !== this.#visit) return;
    this.error = error;
    const meanwhile = this.#meanwhile;
    this.#meanwhile = null;
    if (answers !== null) {
      this.keep(...answers);
      // They may be newer than the loaded data; applying one twice does no harm.
      for (const [name, data] of meanwhile) this.apply(name, data);
    }
    this.touch();
  }

  /** Process an event if it is about the shown group. Returns the text to announce to screen readers, or null. */
  take(name, data) {
    if (this.target === null || keyOf(data) !== keyOf(this.target)) return null;
    this.#meanwhile?.push([name, data]);
    return this.apply(name, data);
  }

  /** Apply an event about the shown group. Returns the text to announce to screen readers, or null. */
  apply() {
    return null;
  }

  /** Redraw after a change. */
  touch() {
    this.edition += 1;
    this.render();
  }

  /** Update the view if it is visible. */
  render() {
    if (this.target !== null && !this.root.hidden) this.draw();
  }

  /** Return the link for a name that may have been meant instead of one that does not exist. */
  linkOf(name) {
    return groupLink(this.target.cluster ?? "", name);
  }

  /** Make the text shown until something is loaded: that it is loading, or why it failed. */
  waiting() {
    return this.error === null ? el("p", { class: "quiet" }, "Loading …") : this.errorNote();
  }

  /** Make a note on the last error, with names that may have been meant; null if there was none. `row` is the group's, if it exists. */
  errorNote(row = null) {
    const { error } = this;
    if (error === null) return null;
    if (!(error instanceof ApiError)) return trouble("The exporter cannot be reached; trying again when it is back.");
    const near = error.didYouMean.map((each, place) => [place ? ", " : " Did you mean ", el("a", { href: this.linkOf(each) }, named(each))]);
    return trouble(`${error.message}.`, error.status === 404 && row === null ? [near, near.length ? "?" : null] : null);
  }
}

function trouble(...text) {
  return el("p", { class: "trouble", role: "alert" }, ...text);
}
