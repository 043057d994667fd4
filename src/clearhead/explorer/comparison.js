"use strict";
(() => {
  const root = document.documentElement;
  const language = document.getElementById("language");
  const theme = document.getElementById("theme");
  language.hidden = theme.hidden = false;
  language.addEventListener("click", () => {
    const next = root.dataset.language === "en" ? "zh" : "en";
    root.dataset.language = next;
    root.lang = next === "zh" ? "zh-CN" : "en";
  });
  theme.addEventListener("click", () => {
    const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  });
})();
