// Keeps a connection to the exporter's events: detects when it is dead, reopens it, and reports its state.
//
// Passes on events as (name, data) and the state as "connecting", "live" or "lost". The browser resumes a broken stream
// itself with the id of the last event; a newly opened one starts from now, so everything is loaded then.

import { EventName } from "./sets.js";

/** The exporter sends a status every 5 s; after this long without an event the connection is considered dead. */
const SILENCE_MS = 12_000;
const FIRST_WAIT_MS = 1_000, LONGEST_WAIT_MS = 15_000;

export class Stream {
  #source = null;
  #heardAt = performance.now();
  #wait = FIRST_WAIT_MS;
  #retry = null;

  /** `onEvent(name, data, isNew)`: isNew is true until the hello of a newly opened stream has been passed on. */
  constructor(address, onEvent, onState) {
    this.address = address;
    this.onEvent = onEvent;
    this.onState = onState;
    this.state = "connecting";
    setInterval(() => this.#watch(), 1_000);
    addEventListener("online", () => this.open());
    this.open();
  }

  /** Milliseconds since the last event. */
  get silence() {
    return performance.now() - this.#heardAt;
  }

  /** Open the stream, in place of an existing one. */
  open() {
    clearTimeout(this.#retry);
    this.#retry = null;
    this.#source?.close();
    const source = new EventSource(this.address);
    this.#source = source;
    let isNew = true;
    for (const name of Object.values(EventName)) {
      source.addEventListener(name, (event) => {
        if (source !== this.#source) return;
        this.#heardAt = performance.now();
        this.#wait = FIRST_WAIT_MS;
        this.#say("live");
        this.onEvent(name, JSON.parse(event.data), isNew);
        if (name === EventName.HELLO) isNew = false;
      });
    }
    source.addEventListener("error", () => {
      if (source !== this.#source) return;
      this.#say("lost");
      // The browser retries by itself unless the exporter refused.
      if (source.readyState === EventSource.CLOSED) this.#openLater();
    });
  }

  #openLater() {
    if (this.#retry !== null) return;
    this.#retry = setTimeout(() => this.open(), this.#wait);
    this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT_MS);
  }

  #watch() {
    if (this.state === "lost" || this.silence <= SILENCE_MS) return;
    this.#say("lost");
    this.#source?.close();
    this.#openLater();
  }

  #say(state) {
    if (state === this.state) return;
    this.state = state;
    this.onState(state);
  }
}
