// Answers print open, and fold again afterwards. Nothing else on the pages needs this script.
"use strict";
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.solution:not([open])")];
  for (const fold of opened) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of opened) fold.open = false;
});
