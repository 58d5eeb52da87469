// Silences and announced deploys: those in force, to come and recently ended, and a form for a new one if the user may
// create one. Reloaded from the API while the view is open, because any exporter may have accepted a new one.

import { el, grid, named, refill, section, setText, timed } from "./dom.js";
import { span } from "./figures.js";
import { send, silenceApi, silencesApi } from "./links.js";
import { SilenceKind } from "./sets.js";
import { LoadedView } from "./view.js";
import { askedBy, silenceText } from "./words.js";

const ASKED_AGAIN_MS = 5_000;
/** Maximum number of ended ones shown. */
const ENDED = 20;
const UNITS = [["minutes", 60_000], ["hours", 3_600_000], ["days", 86_400_000]];
const KINDS = [[SilenceKind.SILENCE, "Hold alerts back"], [SilenceKind.DEPLOY, "Announce a deploy"]];

export class MaintenanceView extends LoadedView {
  #timer = null;
  /** The clock in whose zone the form has the start. */
  #clock = null;

  constructor(root, store, readClock) {
    super(root, store, readClock);
    this.list = el("div", {});
    this.said = el("p", { role: "status" });
    this.refused = el("p", { class: "trouble", role: "alert", hidden: true });
    this.form = el("div", {});
    this.root.append(this.list, this.said, this.refused, this.form);
  }

  forget() {
    this.answer = null;
    this.#say("");
  }

  close() {
    super.close();
    clearTimeout(this.#timer);
  }

  addresses() {
    return [silencesApi()];
  }

  keep(answer) {
    this.answer = answer;
  }

  async load() {
    clearTimeout(this.#timer);
    await super.load();
    clearTimeout(this.#timer);
    if (this.target !== null) this.#timer = setTimeout(() => this.load(), ASKED_AGAIN_MS);
  }

  draw() {
    const clock = this.readClock(), { answer } = this;
    const clusters = [...new Set([...this.store.rows.values()].map((row) => row.cluster))].sort();
    refill(this.list, `${clock.zone} ${JSON.stringify([answer?.silences, answer?.read_only, String(this.error)])} ${this.#phases()}`, () => this.#view(clock, clusters));
    if (answer === null) return;
    refill(this.form, JSON.stringify([answer.user, answer.read_only, this.target]), () => (answer.read_only === null ? this.#wish(clock) : el("p", { class: "quiet" }, `Read only: ${answer.read_only}.`)));
    this.#offer(clusters);
    this.#restate(clock);
  }

  /** Show the start in the chosen zone, without making the form anew. */
  #restate(clock) {
    const start = this.form.querySelector("#wish-start");
    if (start === null || this.#clock === clock) return;
    if (start.value !== "") start.value = clock.field(this.#clock.read(start.value));
    setText(this.form.querySelector("label[for=wish-start]"), startLabel(clock));
    this.#clock = clock;
  }

  /** Update the choice of clusters alone: a form that is made anew would lose what the user has typed. */
  #offer(clusters) {
    const choice = this.form.querySelector("#wish-cluster");
    if (choice === null) return;
    const known = [...choice.options].map((each) => each.value);
    if (JSON.stringify(known) === JSON.stringify(clusters)) return;
    const chosen = (known.length > 1 ? null : this.target.cluster) ?? choice.value;
    choice.replaceChildren(...clusters.map((each) => el("option", { value: each }, each)));
    if (clusters.includes(chosen)) choice.value = chosen;
    choice.parentElement.hidden = clusters.length < 2;
  }

  /** Return what changes with time alone: which have begun, and which have ended. */
  #phases() {
    return (this.answer?.silences ?? []).map((each) => phase(each, this.store.nowMs)).join("");
  }

  #view(clock, clusters) {
    const head = [el("nav", { class: "crumbs", "aria-label": "Where you are" }, el("a", { href: "#/" }, "All groups"), " / maintenance")];
    if (this.answer === null) return [head, el("h1", { tabindex: "-1" }, "Maintenance"), this.waiting()];
    const { silences, read_only: readOnly } = this.answer, nowMs = this.store.nowMs;
    const of = (wanted) => silences.filter((each) => phase(each, nowMs) === wanted);
    const standing = [...of("now"), ...of("later")], ended = of("over").slice(0, ENDED);
    const several = clusters.length > 1 || new Set(silences.map((each) => each.cluster)).size > 1;
    const heads = ["Groups", "What", "When", "Who", "Why"];
    const cells = (each) => silenceCells(each, clock, nowMs, several);
    return [
      head, el("h1", { tabindex: "-1" }, standing.length ? `Maintenance: ${of("now").length} in force, ${of("later").length} to come` : "Maintenance: nothing is silenced, no deploy is announced"),
      this.errorNote(),
      standing.length ? grid("In force and to come", readOnly === null ? [...heads, ""] : heads, standing.map((each) => (readOnly === null ? [...cells(each), this.#end(each, nowMs)] : cells(each)))) : null,
      ended.length ? el("details", { "data-key": "ended" }, el("summary", {}, "Over lately"), grid("Over lately", heads, ended.map(cells))) : null,
    ];
  }

  #end(silence, nowMs) {
    const text = phase(silence, nowMs) === "later" ? "Remove" : "End now";
    const button = el("button", { type: "button", "data-key": `end ${silence.silence_id}`, "aria-label": `${text}: ${silence.reason}` }, text);
    button.addEventListener("click", () => this.#do("DELETE", silenceApi(silence), null, () => "It is over."));
    return button;
  }

  #wish(clock) {
    this.#clock = clock;
    const field = (name, attributes = {}) => el("input", { id: `wish-${name}`, name, autocomplete: "off", ...attributes });
    const choice = (name, options) => el("select", { id: `wish-${name}`, name }, options.map(([value, text]) => el("option", { value }, text)));
    const kind = choice("kind", KINDS), cluster = choice("cluster", []);
    const groups = el("textarea", { id: "wish-groups", name: "groups", rows: "2", required: true, spellcheck: "false", "aria-describedby": "wish-groups-hint" });
    groups.value = this.target.group ?? "";
    const length = field("length", { type: "number", min: "1", max: "1000", value: "30", required: true }), unit = choice("unit", UNITS.map(([text, ms]) => [String(ms), text]));
    const start = field("start", { type: "datetime-local" }), version = field("version", { maxlength: "100" }), by = field("by", { maxlength: "200" }), reason = field("reason", { maxlength: "500", required: true });
    const line = (input, label, ...more) => el("p", {}, el("label", { for: input.id }, label), " ", input, ...more);
    const versionLine = line(version, "Version"), clusterLine = line(cluster, "Cluster");
    clusterLine.hidden = true;
    const form = el("form", { class: "wish", "aria-label": "New silence or deploy" },
      line(kind, "What"), clusterLine,
      line(groups, "Groups", el("span", { class: "quiet", id: "wish-groups-hint" }, " One a line. A * at the end stands for all names that begin like it; * alone for the whole cluster.")),
      line(length, "For", " ", unit), line(start, startLabel(clock), el("span", { class: "quiet" }, " Empty: now.")), versionLine,
      line(by, "Who", el("span", { class: "quiet" }, " Empty: ", named(this.answer.user), ", who is logged in.")), line(reason, "Why"),
      el("button", { type: "submit" }, "Put it in force"));
    unit.setAttribute("aria-label", "Unit of the duration");
    const drawKind = () => {
      versionLine.hidden = kind.value !== SilenceKind.DEPLOY;
    };
    kind.addEventListener("change", drawKind);
    drawKind();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const isDeploy = kind.value === SilenceKind.DEPLOY, startMs = start.value === "" ? null : this.#clock.read(start.value);
      const wanted = {
        kind: kind.value, cluster: cluster.options.length > 1 ? cluster.value : null, groups: groups.value.split("\n").map((each) => each.trim()).filter(Boolean),
        reason: reason.value, duration_ms: Math.round(Number(length.value) * Number(unit.value)), starts_at_ms: startMs,
        version: isDeploy && version.value.trim() ? version.value.trim() : null, on_behalf_of: by.value.trim() || null,
      };
      this.#do("POST", silencesApi(), wanted, coverText).then((made) => {
        if (made) form.reset();
        drawKind();
      });
    });
    return section("New", form);
  }

  /** Request a change and show the result, with `done` for the response; return whether it succeeded. */
  async #do(method, address, body, done) {
    this.#say("");
    let made;
    try {
      made = await send(method, address, body);
    } catch (error) {
      this.#say("", `It was not done: ${error.message}.`);
      return false;
    }
    this.#say(done(made));
    await this.load();
    return true;
  }

  #say(text, refusal = "") {
    this.said.textContent = text;
    this.refused.textContent = refusal;
    this.refused.hidden = refusal === "";
  }
}

function startLabel(clock) {
  return `From, ${clock.zone}`;
}

/** Return a text with the number of groups that a new silence covers, which reveals mistyped names. */
function coverText({ covered_groups: covered }) {
  // An older exporter, which may answer during an upgrade, does not report the number.
  if (covered === undefined) return "It is in force, for all exporters.";
  const groups = covered === 0 ? "no group of such a name is known now" : `it covers ${covered} of the groups known now`;
  return `It is in force, for all exporters: ${groups}.`;
}

/** Return whether a silence is to come ("later"), in force ("now") or "over". */
function phase(silence, nowMs) {
  if (silence.ends_at_ms <= nowMs) return "over";
  return silence.starts_at_ms > nowMs ? "later" : "now";
}

function silenceCells(silence, clock, nowMs, several) {
  const at = (ms) => timed(ms, clock.moment(ms));
  const when = {
    over: () => ["ended ", at(silence.ends_at_ms), silence.expired_by === null ? null : [" by ", named(silence.expired_by)]],
    later: () => ["from ", at(silence.starts_at_ms), ` for ${span(silence.ends_at_ms - silence.starts_at_ms)}`],
    now: () => ["until ", at(silence.ends_at_ms)],
  };
  const groups = silence.groups.map((each, place) => [place ? ", " : null, named(each)]);
  return [
    [groups, several ? el("span", { class: "below" }, "cluster ", named(silence.cluster)) : null],
    [silenceText(silence), silence.version === null ? null : [" ", named(silence.version)]],
    when[phase(silence, nowMs)](), named(askedBy(silence)), named(silence.reason),
  ];
}
