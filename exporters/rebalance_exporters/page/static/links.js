// Addresses: of the page's views, which alerts link to, and of the API. Names are percent-encoded in both.

const GROUPS = "groups", REBALANCES = "rebalances", WHY = "why", PAST = "past", MAINTENANCE = "maintenance";

const LONGEST_LINE = 4_096, LONGEST_TEXT = 65_536;
// A frame of a Java stack trace, on a line of its own or after a text field made blanks of line breaks.
const FRAME = /\s(?:at [^\s()]{1,500}\([^()]{0,200}\)(?: ~?\[[^\]]{0,200}\])?|\.{3} \d{1,6} (?:more|common frames omitted)(?!\w))/g;

const part = encodeURIComponent;

/** Return the address of a group's view, now or in a stretch of time, {fromMs, toMs}. */
export function groupLink(cluster, group, stretch = null) {
  return `#/${GROUPS}/${part(cluster)}/${part(group)}${stretchQuery(stretch)}`;
}

/** Return the address of the view of all groups, of one cluster or of all. */
export function fleetLink(cluster) {
  return cluster === null ? "#/" : `#/?cluster=${part(cluster)}`;
}

/** Return the address of the view of all groups in a stretch of time; of one cluster, or of all. */
export function pastLink(stretch, cluster = null) {
  return `#/${PAST}${stretchQuery(stretch)}${cluster === null ? "" : `&cluster=${part(cluster)}`}`;
}

function stretchQuery(stretch) {
  return stretch === null ? "" : `?from=${stretch.fromMs}&to=${stretch.toMs}`;
}

/** Return the address of the view of one rebalance. */
export function rebalanceLink(cluster, group, rebalanceId) {
  return `${groupLink(cluster, group)}/${REBALANCES}/${part(rebalanceId)}`;
}

/** Return the address of the view of silences and deploys, with a group that a new one is to be about. */
export function maintenanceLink(cluster, group) {
  return `#/${MAINTENANCE}?cluster=${part(cluster)}&group=${part(group)}`;
}

/** Return the address of the view that says what a line of a log means. */
export function whyLink(text) {
  return `#/${WHY}/${part(text)}`;
}

/**
 * Read an address: {view: "fleet" | "group" | "rebalance" | "past" | "maintenance" | "why" | "nowhere", cluster, group, rebalanceId, text,
 * stretch}. The stretch of time, {fromMs, toMs}, is null where it is now; a cluster of null is all of them.
 */
export function readHash(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split("?");
  const raw = path.split("/"), asked = new URLSearchParams(query), stretch = readStretch(asked);
  if (raw.length === 1 && raw[0] === "") return { view: "fleet", cluster: asked.get("cluster") };
  if (raw.length === 1 && raw[0] === PAST) return { view: "past", cluster: asked.get("cluster"), stretch };
  if (raw.length === 1 && raw[0] === MAINTENANCE) return { view: "maintenance", cluster: asked.get("cluster"), group: asked.get("group") };
  let parts;
  try {
    parts = raw.map(decodeURIComponent);
  } catch {
    return { view: "nowhere" };
  }
  if (parts[0] === WHY) return { view: "why", text: parts.slice(1).join("/") };
  if (parts[0] !== GROUPS || parts.length < 3) return { view: "nowhere" };
  const [cluster, ...rest] = parts.slice(1);
  // A group of the name a/rebalances/b is written with %2F; one that somebody typed with plain slashes is taken too.
  if (rest.length > 2 && rest.at(-2) === REBALANCES) {
    return { view: "rebalance", cluster, group: rest.slice(0, -2).join("/"), rebalanceId: rest.at(-1) };
  }
  return { view: "group", cluster, group: rest.join("/"), stretch };
}

function readStretch(asked) {
  const [fromMs, toMs] = ["from", "to"].map((each) => (/^\d{1,14}$/.test(asked.get(each)) ? Number(asked.get(each)) : NaN));
  return fromMs < toMs ? { fromMs, toMs } : null;
}

/** Return the API's address of a group, or of something below it. */
export function groupApi(cluster, group, below = "", query = "") {
  return `api/v1/groups/${part(group)}${below}?cluster=${part(cluster)}${query}`;
}

/** Return the API's address of one rebalance. */
export function rebalanceApi(cluster, group, rebalanceId) {
  return groupApi(cluster, group, `/${REBALANCES}/${part(rebalanceId)}`);
}

/** Return the API's address of the rebalances of a group, newest first; of a stretch of time, or the latest. */
export function rebalancesApi(cluster, group, limit, stretch = null) {
  const within = stretch === null ? "" : `&since_ms=${stretch.fromMs}&until_ms=${stretch.toMs}`;
  return groupApi(cluster, group, `/${REBALANCES}`, `&limit=${limit}${within}`);
}

/** Return the API's address of what rebalances cost in a stretch of time, with at most so many groups. */
export function reportApi(stretch, cluster, limit) {
  return `api/v1/report?since_ms=${stretch.fromMs}&until_ms=${stretch.toMs}&limit=${limit}${cluster === null ? "" : `&cluster=${part(cluster)}`}`;
}

/** Return the API's address of what settings would have avoided in a group in the last day. */
export function adviceApi(cluster, group) {
  return groupApi(cluster, group, "/advice");
}

/** Return the API's address of the findings of a group; an empty name: of whole clusters. */
export function findingsApi(cluster, group) {
  return `api/v1/findings?group=${part(group)}${cluster === null ? "" : `&cluster=${part(cluster)}`}`;
}

/** Return the API's address of what is known of a line of a log, or of a stack trace: its causes, and as much as the API takes. */
export function messagesApi(text) {
  const kept = text.slice(0, LONGEST_TEXT).replaceAll(FRAME, "");
  return `api/v1/messages?text=${part([...kept].slice(0, LONGEST_LINE).join(""))}`;
}

/** Return the API's address of silences and announced deploys. */
export function silencesApi() {
  return "api/v1/silences";
}

/** Return the API's address of one of them. */
export function silenceApi(silence) {
  return `${silencesApi()}/${part(silence.silence_id)}?cluster=${part(silence.cluster)}`;
}

/** What the API answered instead of what was asked for. */
export class ApiError extends Error {
  constructor(status, text, didYouMean = []) {
    super(text);
    this.status = status;
    this.didYouMean = didYouMean;
  }
}

/** Ask the API. Throws ApiError for what it refuses, TypeError when it cannot be reached. */
export function ask(address) {
  return call(address, {});
}

/** Ask the API to change something; the body is null where the address says all. Throws as `ask` does. */
export function send(method, address, body) {
  return call(address, { method, body: body === null ? null : JSON.stringify(body) });
}

async function call(address, how) {
  const headers = { accept: "application/json", ...(how.body ? { "content-type": "application/json" } : {}) };
  const answer = await fetch(address, { ...how, headers, cache: "no-store" });
  if (answer.ok) return answer.json();
  const refusal = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, refusal.error ?? `the exporter answered ${answer.status}`, refusal.did_you_mean ?? []);
}
