// Comforts; the pages can be read without them. Answers print open and fold again afterwards. The language switch keeps
// the place. A tap on a number shows what pointing at it shows: its name and its exact value. So do the keys: Tab stops
// once in each section, at its first number, and the arrows go from number to number; Escape closes what is shown.
"use strict";

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.solution:not([open])")];
  for (const fold of opened) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of opened) fold.open = false;
});

const tip = document.createElement("div");
tip.className = "number-tip";
tip.setAttribute("role", "status");
tip.hidden = true;
addEventListener("DOMContentLoaded", () => document.body.append(tip));
addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
});

const numberAt = (target) => target.closest?.(".cell") ?? target.closest?.("[data-fact]");
const show = (number) => {
  tip.textContent = number.getAttribute("title") || number.querySelector("title")?.textContent || "";
  tip.hidden = tip.textContent === "";
  const place = number.getBoundingClientRect();
  const left = Math.min(place.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${place.bottom + scrollY + 6}px`;
};
addEventListener("click", (event) => {
  const number = numberAt(event.target);
  tip.hidden = true;
  if (number && !number.closest("a")) show(number);
});

// Numbers that are links can be reached as links; of the others, one in each section.
let numbers = [];
addEventListener("DOMContentLoaded", () => {
  numbers = [...document.querySelectorAll("article .fact, article .cell")].filter((number) => !number.closest("a"));
  const sections = new Set();
  for (const number of numbers) {
    const section = number.closest("section");
    number.setAttribute("tabindex", sections.has(section) ? "-1" : "0");
    sections.add(section);
  }
});
addEventListener("focusin", (event) => {
  const number = numberAt(event.target) ?? event.target.querySelector?.(":scope > [data-fact]");
  if (number && event.target.matches(":focus-visible")) show(number);
});
addEventListener("focusout", () => {
  tip.hidden = true;
});
addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const here = numbers.indexOf(document.activeElement);
  if (!step || here < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const shut = (number) => number.closest("details:not([open])");
  let next = here + step;
  while (numbers[next] && shut(numbers[next])) next += step;
  numbers[next]?.focus();
});

// Both languages have the same anchors.
const keepPlace = () => {
  for (const link of document.querySelectorAll(".language-switch a")) {
    const plain = link.getAttribute("href").split(/[?#]/)[0];
    link.setAttribute("href", plain + location.search + location.hash);
  }
};
addEventListener("DOMContentLoaded", keepPlace);
addEventListener("hashchange", keepPlace);

// Chromium leaves room beside a root for the widest sign that it might have needed.
addEventListener("DOMContentLoaded", async () => {
  await document.fonts.ready;
  for (const root of document.querySelectorAll("msqrt")) {
    const size = parseFloat(getComputedStyle(root).fontSize);
    const room = (root.getBoundingClientRect().right - root.lastElementChild.getBoundingClientRect().right) / size;
    if (room > 0.15) root.style.marginRight = `${0.05 - room}em`;
  }
});
