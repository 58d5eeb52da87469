// What the views that are drawn from the API share: a target that is visited, loading with what fails, and drawing anew.

import { el, named } from "./dom.js";
import { ApiError, ask, groupLink } from "./links.js";

/**
 * A view that asks the API for what it shows. A subclass says what it asks for (`addresses`), keeps the answers
 * (`keep`), forgets them (`forget`) and draws (`draw`); the rest is here.
 */
export class LoadedView {
  /** What is shown, as `readHash` returns it; null while it is another view's turn. */
  target = null;
  /** What the last attempt to load threw, null where it went well. */
  error = null;
  /** Grows with everything that changes what is drawn, but for store and clock. */
  edition = 0;
  #visit = 0;

  constructor(root, store = null, readClock = null) {
    this.root = root;
    this.store = store;
    this.readClock = readClock;
  }

  /** Show a target: what is known of it at once, the rest when it is there. */
  open(target) {
    this.target = target;
    this.error = null;
    this.forget();
    this.touch();
    return this.load();
  }

  /** End the visit: what is still being loaded for it is not taken. */
  close() {
    this.target = null;
    this.#visit += 1;
  }

  /** Load all of it anew; what came in between is in what is loaded. Where it fails, what was known stays. */
  async load() {
    const addresses = this.addresses();
    if (!addresses.length) return;
    const visit = (this.#visit += 1);
    let answers = null, error = null;
    try {
      answers = await Promise.all(addresses.map(ask));
    } catch (thrown) {
      error = thrown;
    }
    if (visit !== this.#visit) return;
    this.error = error;
    if (answers !== null) this.keep(...answers);
    this.touch();
  }

  /** Something that is shown changed. */
  touch() {
    this.edition += 1;
    this.render();
  }

  /** Bring the view up to date, if it is the one that is seen. */
  render() {
    if (this.target !== null && !this.root.hidden) this.draw();
  }

  /** Return the link to what may have been meant instead of what is not there. */
  linkOf(name) {
    return groupLink(this.target.cluster ?? "", name);
  }

  /** What stands where nothing has been loaded yet: that it is, or why it cannot be. */
  waiting() {
    return this.error === null ? el("p", { class: "quiet" }, "Loading …") : this.errorNote();
  }

  /** Say what the API refused, with what may have been meant; null where nothing went wrong. `row`: the group's, where there is one. */
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
