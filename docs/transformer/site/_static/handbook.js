// Two comforts; the pages can be read without either. Answers print open and fold again afterwards. A tap on a number
// shows what pointing at it shows: its name and its exact value.
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
addEventListener("click", (event) => {
  const number = event.target.closest(".cell") ?? event.target.closest("[data-fact]");
  tip.hidden = true;
  if (!number || number.closest("a")) return;
  tip.textContent = number.getAttribute("title") || number.querySelector("title")?.textContent || "";
  tip.hidden = tip.textContent === "";
  const place = number.getBoundingClientRect();
  const left = Math.min(place.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${place.bottom + scrollY + 6}px`;
});
