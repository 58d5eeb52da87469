// What a line of a log means: the matching entries of the API's index, and the present findings of the line's group.

import { el, named, refill } from "./dom.js";
import { groupLink, messagesApi } from "./links.js";
import { MessageMatch } from "./sets.js";
import { LoadedView } from "./view.js";
import { severityBadge, words } from "./words.js";

export class WhyView extends LoadedView {
  constructor(root, store) {
    super(root, store);
    this.part = el("div", {});
    this.root.append(this.part);
  }

  get text() {
    return this.target.text;
  }

  forget() {
    this.answer = null;
  }

  addresses() {
    return this.text.trim() === "" ? [] : [messagesApi(this.text)];
  }

  keep(answer) {
    this.answer = answer;
  }

  draw() {
    const groups = this.#groups();
    refill(this.part, JSON.stringify([this.edition, groups.map((each) => [each.cluster, each.findings])]), () => [
      el("nav", { class: "crumbs", "aria-label": "Where you are" }, el("a", { href: "#/" }, "All groups"), " / why"),
      el("h1", { tabindex: "-1" }, this.#verdict()),
      this.text === "" ? null : el("p", { class: "asked" }, el("code", {}, named(this.text))),
      groups.map((row) => groupNow(row, this.answer.messages)),
      (this.answer?.messages ?? []).map((each, place) => article(each, place === 0 && this.#isSure(), this.#found())),
    ]);
  }

  #isSure() {
    const titles = new Set(this.answer.messages.map((each) => each.title));
    return this.answer.match === MessageMatch.WHOLE || (this.answer.match === MessageMatch.PART && titles.size === 1);
  }

  #verdict() {
    if (this.text.trim() === "") return "Paste a line of a client's or a broker's log above";
    if (this.answer === null) return this.error === null ? "Looking it up …" : `No answer: ${this.error.message}`;
    if (this.#isSure()) return this.answer.messages[0].title;
    if (this.answer.match === MessageMatch.PART) return "Part of several messages, the likeliest first: paste more of the line";
    return this.answer.messages.length ? "Not known. The nearest messages:" : "Not known: no message about consumer groups has this text";
  }

  /** Return the groups that the line may be about, one per cluster. */
  #groups() {
    const name = this.answer?.group ?? null;
    return name === null || this.answer.match === MessageMatch.NONE ? [] : [...this.store.rows.values()].filter((row) => row.group === name);
  }

  #found() {
    return new Set(this.#groups().flatMap((row) => row.findings.map((each) => each.rule)));
  }
}

/** Make a list of the group's present findings, those first that may cause the message. */
function groupNow(row, messages) {
  const causes = new Set(messages.flatMap((each) => each.causes.map((cause) => cause.diagnosis)));
  const found = [...row.findings].sort((a, b) => causes.has(b.rule) - causes.has(a.rule));
  return el("ul", { class: "notices" }, el("li", {},
    el("a", { href: groupLink(row.cluster, row.group) }, named(row.group)), ` in ${row.cluster} now${found.length ? ":" : ": nothing is found"}`,
    found.slice(0, 3).map((each) => el("div", {}, severityBadge(each.severity), " ", el("strong", {}, words(each.rule)), ` ${each.summary}`))));
}

/** Return a text with its parts between backticks as code. */
function withCode(text) {
  return text.split("`").map((each, place) => (place % 2 ? el("code", {}, each) : each));
}

function article(message, isOpen, found) {
  const causes = [...message.causes].sort((a, b) => found.has(b.diagnosis) - found.has(a.diagnosis));
  return el("details", { open: isOpen, "data-key": message.id },
    el("summary", {}, el("code", {}, message.text), isOpen ? null : el("span", { class: "below" }, message.title)),
    el("div", { class: "finding" },
      el("div", { class: "wide-part" }, el("p", { class: "summary" }, message.meaning, message.ordinary ? " Healthy groups print it too." : null)),
      el("div", {},
        causes.length ? el("h2", { class: "minor-heading" }, "May be") : null,
        causes.length === 0 ? null : el("ul", {}, causes.map((each) => el("li", {}, el("strong", {}, words(each.diagnosis)), found.has(each.diagnosis) ? " [found now]" : null, `: ${each.when}`))),
        message.settings.length ? el("div", { class: "advice" }, el("h2", { class: "minor-heading" }, "Change"), el("ul", {}, message.settings.map((each) => el("li", {}, el("code", {}, each.names.join(" or ")), ": ", each.proposed)))) : null),
      el("div", {},
        el("h2", { class: "minor-heading" }, "Look at"), el("ul", {}, message.look_at.map((each) => el("li", {}, withCode(each)))),
        el("h2", { class: "minor-heading" }, "Printed by"), el("ul", {}, message.printed.map((each) => el("li", {}, `${each.name} ${each.versions}`, el("span", { class: "below" }, each.source)))))));
}
