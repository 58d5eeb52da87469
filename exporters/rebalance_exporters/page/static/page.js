// Puts the page together: addresses choose the view, events update the store, and changes are drawn once per frame.

import { setText, visible } from "./dom.js";
import { FleetView } from "./fleet.js";
import { Clock, age } from "./figures.js";
import { GroupView } from "./group.js";
import { MaintenanceView } from "./maintenance.js";
import { PastView } from "./past.js";
import { ApiError, ask, findingsApi, readHash, whyLink } from "./links.js";
import { RebalanceView } from "./rebalance.js";
import { EventName, FindingState } from "./sets.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { WhyView } from "./why.js";

const ZONE_KEY = "rebalance-monitor.local-time";
const TICK_MS = 1_000;

const byId = (id) => document.getElementById(id);
const store = new Store();
let clock = new Clock(recall(ZONE_KEY) === "yes");
const readClock = () => clock;
const views = {
  fleet: new FleetView(byId("fleet"), store, readClock),
  group: new GroupView(byId("group"), store, readClock),
  rebalance: new RebalanceView(byId("rebalance"), store, readClock),
  past: new PastView(byId("past"), store, readClock),
  maintenance: new MaintenanceView(byId("maintenance"), store, readClock),
  why: new WhyView(byId("why"), store),
};
let shown = null, loads = 0, isLoading = false, waiting = [], frame = null, failure = null, reload = null;

// --- Views and drawing ---

function route() {
  const target = readHash(location.hash);
  if (target.view === "nowhere") {
    location.replace("#/");
    return;
  }
  const isFirst = shown === null;
  for (const view of Object.values(views)) view.close?.();
  shown = views[target.view];
  for (const [name, view] of Object.entries(views)) view.root.hidden = name !== target.view;
  shown.open?.(target);
  if (target.view === "why" && document.activeElement !== byId("line")) byId("line").value = target.text;
  document.title = [target.rebalanceId ? `rebalance ${target.rebalanceId}` : null, target.group, "rebalance-monitor"].filter(Boolean).join(" · ");
  draw();
  // After following a link, scroll to and focus the beginning of the view, which screen readers then read.
  if (isFirst) return;
  scrollTo(0, 0);
  shown.root.querySelector("h1")?.focus({ preventScroll: true });
}

function drawSoon() {
  frame ??= requestAnimationFrame(draw);
}

function draw() {
  if (frame !== null) cancelAnimationFrame(frame);
  frame = null;
  shown?.render();
  drawConnection();
}

const CONNECTIONS = {
  connecting: ["◌", "Connecting"],
  live: ["●", "Live"],
  behind: ["▲", "Live, data not fresh"],
  stale: ["▲", "STALE, reconnecting"],
};

function drawConnection() {
  const state = connection();
  const [mark, text] = CONNECTIONS[state];
  document.body.dataset.connection = state;
  setText(document.querySelector("#connection .mark"), mark);
  setText(byId("connection-text"), text);
  setText(byId("age"), store.dataAgeMs === null ? "data age not known" : `data ${age(store.dataAgeMs)} old`);
  setText(byId("version"), store.version ?? "");
  const trouble = troubleText(state);
  byId("trouble").hidden = trouble === "";
  setText(byId("trouble"), trouble);
}

function connection() {
  if (stream.state === "lost" || failure !== null) return "stale";
  if (stream.state === "connecting" || !store.isLoaded) return "connecting";
  return store.status.ready ? "live" : "behind";
}

/** Return what is wrong. It is read out at each change, so it contains a time, not a duration. */
function troubleText(state) {
  if (state === "behind") return `NOT UP TO DATE: ${store.status.ready_text || "the exporter does not say why"}`;
  if (state !== "stale") return "";
  const since = store.isLoaded ? ` What you see is from ${clock.moment(store.status.at_ms)}.` : "";
  return failure instanceof ApiError ? `STALE: ${failure.message}.${since}` : `STALE: the exporter does not answer; trying again.${since}`;
}

// --- Loading and events ---

async function load() {
  const visit = (loads += 1);
  isLoading = true;
  waiting = [];
  clearTimeout(reload);
  let answers = null, error = null;
  try {
    answers = await Promise.all([ask("api/v1/overview"), ask(`${findingsApi(null, "")}&state=${FindingState.FIRING}`)]);
  } catch (thrown) {
    error = thrown;
  }
  // Of two loads at once, the later one counts, whichever is answered first.
  if (visit !== loads) return;
  failure = error;
  if (answers === null) reload = setTimeout(load, 5 * TICK_MS);
  else store.load(answers[0], answers[1].findings);
  isLoading = false;
  // Events received meanwhile may be newer than the loaded data; applying one twice does no harm.
  for (const [name, data] of waiting.splice(0)) store.take(name, data);
  drawSoon();
}

function hear(name, data, isNew) {
  if (name === EventName.RESET || (name === EventName.HELLO && isNew)) {
    load();
    if (store.isLoaded) shown?.load?.();
  }
  if (isLoading) waiting.push([name, data]);
  else store.take(name, data);
  const said = [EventName.GROUP, EventName.REBALANCE, EventName.FINDING].includes(name) ? shown?.take?.(name, data) : null;
  if (said) setText(byId("announcement"), visible(said));
  drawSoon();
}

const stream = new Stream("api/v1/stream", hear, drawSoon);

// --- User input ---

function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
}

function drawZone() {
  setText(byId("zone"), clock.zone);
  byId("zone").setAttribute("aria-label", `Times are in ${clock.zone}; show them in ${clock.local ? "UTC" : "local time"}`);
}

byId("zone").addEventListener("click", () => {
  clock = new Clock(!clock.local);
  remember(ZONE_KEY, clock.local ? "yes" : "no");
  drawZone();
  draw();
});

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = whyLink(byId("line").value.trim());
});

byId("skip").addEventListener("click", (event) => {
  // Its hash would be taken for the address of a view.
  event.preventDefault();
  byId("main").focus();
});

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
  if (event.key === "/" && !isTyping && shown === views.fleet) {
    event.preventDefault();
    views.fleet.filter.focus();
  } else if (event.key === "Escape" && shown !== views.fleet && !isTyping) {
    location.hash = shown === views.rebalance ? views.rebalance.root.querySelectorAll(".crumbs a")[1].hash : "#/";
  }
});

addEventListener("hashchange", route);
setInterval(drawSoon, TICK_MS);
drawZone();
route();
