// Addresses of the page's views, to which alerts link, and of the API. Names are percent-encoded in both.

const GROUPS = "groups", REBALANCES = "rebalances", WHY = "why", PAST = "past", MAINTENANCE = "maintenance";

const LONGEST_LINE = 4_096, LONGEST_TEXT = 65_536;
// A frame of a Java stack trace, on its own line, or after blanks if a text field has replaced the line breaks.
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

/** Return the address of the view of silences and deploys, with the group for a new one. */
export function maintenanceLink(cluster, group) {
  return `#/${MAINTENANCE}?cluster=${part(cluster)}&group=${part(group)}`;
}

/** Return the address of the view that explains a line of a log. */
export function whyLink(text) {
  return `#/${WHY}/${part(text)}`;
}

/**
 * Return the target of an address: {view: "fleet" | "group" | "rebalance" | "past" | "maintenance" | "why" | "nowhere", cluster, group, rebalanceId, text,
 * stretch}. The stretch of time, {fromMs, toMs}, is null for now; a null cluster means all clusters.
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
  // A group called a/rebalances/b is encoded with %2F; other names may also be typed with plain slashes.
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

/** Return the API's address of the rebalances of a group, newest first: those of a stretch of time, or the latest. */
export function rebalancesApi(cluster, group, limit, stretch = null) {
  const within = stretch === null ? "" : `&since_ms=${stretch.fromMs}&until_ms=${stretch.toMs}`;
  return groupApi(cluster, group, `/${REBALANCES}`, `&limit=${limit}${within}`);
}

/** Return the API's address of the report on a stretch of time, with at most `limit` groups. */
export function reportApi(stretch, cluster, limit) {
  return `api/v1/report?since_ms=${stretch.fromMs}&until_ms=${stretch.toMs}&limit=${limit}${cluster === null ? "" : `&cluster=${part(cluster)}`}`;
}

/** Return the API's address of what settings would have avoided in a group in the last day. */
export function adviceApi(cluster, group) {
  return groupApi(cluster, group, "/advice");
}

/** Return the API's address of the findings of a group, or of whole clusters if the name is empty. */
export function findingsApi(cluster, group) {
  return `api/v1/findings?group=${part(group)}${cluster === null ? "" : `&cluster=${part(cluster)}`}`;
}

/** Return the API's address of the explanation of a log line or stack trace, shortened to its causes and the API's limit. */
export function messagesApi(text) {
  const kept = text.slice(0, LONGEST_TEXT).replaceAll(FRAME, "");
  return `api/v1/messages?text=${part([...kept].slice(0, LONGEST_LINE).join(""))}`;
}

/** Return the API's address of silences and announced deploys. */
export function silencesApi() {
  return "api/v1/silences";
}

/** Return the API's address of one silence or deploy. */
export function silenceApi(silence) {
  return `${silencesApi()}/${part(silence.silence_id)}?cluster=${part(silence.cluster)}`;
}

/** An error response of the API. */
export class ApiError extends Error {
  constructor(status, text, didYouMean = []) {
    super(text);
    this.status = status;
    this.didYouMean = didYouMean;
  }
}

/** Return the API's response to a GET request. Throws ApiError if refused, TypeError if the API cannot be reached. */
export function ask(address) {
  return call(address, {});
}

/** Send a request that changes something; the body may be null. Throws as `ask` does. */
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
