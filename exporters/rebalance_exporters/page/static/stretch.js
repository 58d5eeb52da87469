// The form to choose a past stretch of time: two times, and steps before and after. Independent of the views.

import { el } from "./dom.js";

const MINUTE = 60_000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

/** Stretches that end now, as [label, length]. */
const CHOICES = [["1 h", HOUR], ["6 h", 6 * HOUR], ["24 h", DAY], ["7 days", 7 * DAY]];

/** Return the night until this morning, from 20:00 to 08:00 in the clock's zone, at most up to now. */
export function lastNight(clock, nowMs) {
  const today = clock.read(`${clock.date(nowMs)}T08:00`);
  const toMs = nowMs < today ? Math.min(today, nowMs) : today;
  return { fromMs: today - 12 * HOUR, toMs };
}

/** Return the stretch moved by a number of its lengths, ending at the latest now. */
function moved({ fromMs, toMs }, lengths, nowMs) {
  const end = Math.min(toMs + lengths * (toMs - fromMs), nowMs);
  return { fromMs: Math.round(end - (toMs - fromMs)), toMs: Math.round(end) };
}

/**
 * Make the form. `stretch` is the shown one, null for now; `linkOf(stretch)` returns the address of a stretch, or of now
 * for null. Submitting the form, or following a link, goes there.
 */
export function stretchForm({ stretch, nowMs, clock, linkOf }) {
  const shown = stretch ?? { fromMs: nowMs - HOUR, toMs: nowMs };
  const [from, to] = [["from", shown.fromMs], ["to", shown.toMs]].map(([name, atMs]) => el("input", { type: "datetime-local", name, value: clock.field(atMs), required: true, "aria-label": `${name === "from" ? "From" : "To"}, ${clock.zone}`, "data-key": name }));
  const quick = [...CHOICES.map(([text, length]) => [text, { fromMs: Math.floor((nowMs - length) / MINUTE) * MINUTE, toMs: Math.ceil(nowMs / MINUTE) * MINUTE }]), ["last night", lastNight(clock, nowMs)]];
  const form = el("form", { class: "stretch tools", "aria-label": "Stretch of time" },
    el("span", {}, "From"), from, el("span", { "aria-hidden": "true" }, "to"), to, el("span", { class: "quiet" }, clock.zone), el("button", { type: "submit" }, "Show"),
    stretch === null ? null : [el("a", { href: linkOf(moved(stretch, -1, nowMs)) }, "← before"), stretch.toMs < nowMs ? el("a", { href: linkOf(moved(stretch, 1, nowMs)) }, "after →") : null],
    el("ul", { class: "keys" }, quick.map(([text, each]) => el("li", {}, el("a", { href: linkOf(each) }, text)))),
    stretch === null ? null : el("a", { href: linkOf(null), class: "now" }, "Back to now"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const fromMs = clock.read(from.value), toMs = clock.read(to.value);
    to.setCustomValidity(fromMs < toMs ? "" : "It must be later than the time before it.");
    if (form.reportValidity()) location.hash = linkOf({ fromMs, toMs });
  });
  to.addEventListener("input", () => to.setCustomValidity(""));
  from.addEventListener("input", () => to.setCustomValidity(""));
  return form;
}

/** Return a stretch of time as text. */
export function stretchText({ fromMs, toMs }, clock) {
  const sameDay = clock.date(fromMs) === clock.date(toMs);
  return `${clock.date(fromMs)} ${clock.time(fromMs).slice(0, 5)} to ${sameDay ? "" : `${clock.date(toMs)} `}${clock.time(toMs).slice(0, 5)} ${clock.zone}`;
}
