"use strict";
(() => {
  const root = document.documentElement;
  const byId = (name) => document.getElementById(name);
  const matrices = JSON.parse(byId("data").textContent).matrices;
  const steps = [...document.querySelectorAll(".step")];
  const links = [...document.querySelectorAll("nav a")];
  const readout = byId("readout");
  const empty = [...readout.childNodes].map((node) => node.cloneNode(true));
  const narrow = window.matchMedia("(max-width: 60rem)");
  let current = -1;
  let hot = [];

  root.classList.add("js");
  for (const name of ["language", "theme", "bar"]) byId(name).hidden = false;
  byId("menu").open = !narrow.matches;

  // ---- steps: one at a time, each with an address
  function show(place, focus) {
    if (place < 0 || place >= steps.length) return;
    steps.forEach((step, at) => step.classList.toggle("current", at === place));
    links.forEach((link, at) => {
      if (at === place) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    });
    current = place;
    byId("place").textContent = `${place + 1} / ${steps.length}`;
    byId("previous").disabled = place === 0;
    byId("next").disabled = place === steps.length - 1;
    clear();
    window.scrollTo(0, 0);
    if (focus) {
      if (narrow.matches) byId("menu").open = false;
      steps[place].querySelector("h2").focus({ preventScroll: true });
      links[place].scrollIntoView({ block: "nearest" });
    }
  }
  function go(place) {
    if (place < 0 || place >= steps.length || place === current) return;
    history.replaceState(null, "", `#${steps[place].id}`);
    show(place, true);
  }
  function fromAddress(focus) {
    const name = decodeURIComponent(location.hash.slice(1));
    const place = steps.findIndex((step) => step.id === name);
    show(place < 0 ? Math.max(current, 0) : place, focus);
  }
  window.addEventListener("hashchange", () => fromAddress(true));
  links.forEach((link, at) => link.addEventListener("click", (event) => { event.preventDefault(); go(at); }));
  byId("previous").addEventListener("click", () => go(current - 1));
  byId("next").addEventListener("click", () => go(current + 1));

  // ---- variants: headings become tabs; the same head stays chosen in the next step of the layer
  const chosen = new Map();
  const sets = [...document.querySelectorAll(".variants")].map((box) => {
    const views = [...box.querySelectorAll(":scope > .variant")];
    const list = document.createElement("div");
    list.className = "tabs";
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-labelledby", `${box.closest(".step").id}-title`);
    const kind = views[0].querySelector("h3").textContent.replace(/\d+/g, "");
    const set = { box, views, kind, tabs: [] };
    views.forEach((view, at) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.id = `${view.id}-tab`;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", view.id);
      tab.append(...[...view.querySelector("h3").childNodes].map((node) => node.cloneNode(true)));
      tab.addEventListener("click", () => choose(set, at));
      tab.addEventListener("keydown", (event) => {
        const move = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
        if (move === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        const next = Math.min(Math.max(move, 0), views.length - 1);
        choose(set, next);
        set.tabs[next].focus();
      });
      view.setAttribute("role", "tabpanel");
      view.setAttribute("aria-labelledby", tab.id);
      set.tabs.push(tab);
      list.append(tab);
    });
    box.prepend(list);
    box.classList.add("tabbed");
    return set;
  });
  function choose(from, place) {
    chosen.set(from.kind, place);
    for (const set of sets.filter((each) => each.kind === from.kind && place < each.views.length)) {
      set.views.forEach((view, at) => view.classList.toggle("current", at === place));
      set.tabs.forEach((tab, at) => {
        tab.setAttribute("aria-selected", String(at === place));
        tab.tabIndex = at === place ? 0 : -1;
      });
    }
    clear();
  }
  sets.forEach((set) => choose(set, 0));

  // ---- cells: names and the number in full
  function clear() {
    hot.forEach((cell) => cell.classList.remove("hot"));
    hot = [];
    readout.replaceChildren(...empty.map((node) => node.cloneNode(true)));
    readout.dataset.empty = "true";
  }
  function read(cell) {
    const table = cell.closest("table");
    const row = cell.parentElement;
    const across = cell.cellIndex - 1;
    const down = row.sectionRowIndex;
    const matrix = matrices[table.dataset.name];
    const value = matrix.values[down][across];
    clear();
    hot = [row.cells[0], table.tHead.rows[0].cells[across + 1], cell];
    hot.forEach((each) => each.classList.add("hot"));
    const column = matrix.columns ? matrix.columns[across] : String(across + 1);
    readout.textContent = `${matrix.rows[down]} · ${column} = ${value === "-inf" ? "−∞" : String(value).replace("-", "−")}`;
    readout.dataset.empty = "false";
  }
  const cellOf = (target) => target instanceof Element ? target.closest(".matrix tbody td") : null;
  document.addEventListener("pointerover", (event) => {
    const cell = cellOf(event.target);
    if (cell) read(cell);
  });
  document.addEventListener("focusin", (event) => {
    const cell = cellOf(event.target);
    if (cell) read(cell);
  });
  for (const table of document.querySelectorAll(".matrix table")) table.tBodies[0].rows[0].cells[1].tabIndex = 0;
  function move(cell, key) {
    const row = cell.parentElement;
    const rows = row.parentElement.rows;
    const down = { ArrowDown: 1, ArrowUp: -1 }[key] || 0;
    const across = { ArrowRight: 1, ArrowLeft: -1 }[key] || 0;
    const to = rows[row.sectionRowIndex + down];
    let next = to && to.cells[cell.cellIndex + across];
    if (key === "Home") next = row.cells[1];
    if (key === "End") next = row.cells[row.cells.length - 1];
    if (!next || next.tagName !== "TD") return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const cell = cellOf(event.target);
    if (event.key === "Escape") {
      clear();
      steps[current].querySelector("h2").focus();
    } else if (cell && /^(Arrow|Home$|End$)/.test(event.key)) {
      event.preventDefault();
      move(cell, event.key);
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      event.preventDefault();
      go(current + (event.key === "ArrowRight" ? 1 : -1));
    }
  });

  // ---- language and theme; the language stands in the address, since a file may be barred from storing anything
  function speak(language) {
    root.dataset.language = language;
    root.lang = language === "zh" ? "zh-CN" : "en";
  }
  byId("language").addEventListener("click", () => {
    speak(root.dataset.language === "zh" ? "en" : "zh");
    history.replaceState(null, "", `?language=${root.dataset.language}${location.hash}`);
  });
  const asked = new URLSearchParams(location.search).get("language");
  if (asked === "en" || asked === "zh") speak(asked);
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  fromAddress(false);
  window.addEventListener("load", () => window.scrollTo(0, 0));
})();
