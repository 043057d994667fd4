"use strict";
// The frame of the page: what was looked at, the views as tabs, language, theme, and the address that leads back here.
(() => {
  const { el, t, say, named, number, language, speak, onLanguage, repaint, dark, selection, select, on } = Clearhead;
  const root = document.documentElement;
  const byId = (name) => document.getElementById(name);
  const ORDER = ["overview", "map", "tokens", "heads", "tests"];
  const views = [];
  let current = null;
  let quiet = true; // nothing is written into the address until all is read from it

  Clearhead.view = (view) => views.push(view);

  // ---- what was looked at
  function textOf(key, text, lang) {
    const words = el("p", { class: "text", dir: "auto", translate: "no", lang, text });
    new ResizeObserver(() => { // what scrolls can be reached by keys
      if (words.scrollHeight > words.clientHeight) words.tabIndex = 0;
      else words.removeAttribute("tabindex");
    }).observe(words);
    return el("div", null, el("h2", { class: "small-title" }, say(key), ` · ${lang}`), words);
  }
  function origin(meta) {
    const values = () => ({ rank: meta.rank ?? "–", score: number(meta.score, 4) });
    return el("span", { class: `chip origin ${meta.origin}` }, say(`shell.origin.${meta.origin}`, values));
  }
  function fact(key, ...content) { return el("div", null, el("dt", null, say(key)), el("dd", null, content)); }
  function more(meta) {
    const versions = Object.entries(meta.versions || {}).map(([name, version]) => `${name} ${version}`).join(", ");
    return el("details", { class: "more" }, el("summary", null, say("shell.more")), el("dl", { class: "facts" },
      fact("shell.fingerprint", el("code", { text: meta.fingerprint })),
      fact("shell.tokenizer", el("code", { text: meta.tokenizer })),
      fact("shell.capture", el("span", { text: meta.capture })),
      fact("shell.dtype", el("span", { text: meta.dtype })),
      fact("shell.dropout", say(meta.dropout ? "shell.on" : "shell.off")),
      versions ? fact("shell.versions", el("span", { text: versions })) : null));
  }
  function about(report) {
    const { meta } = report;
    const sum = report.logProbs.reduce((total, each) => total + each, 0);
    named(byId("about"), "shell.about");
    byId("about").append(
      el("h1", null, el("span", { class: "model", translate: "no", text: meta.model }), " ",
        el("span", { class: "muted family", text: meta.family }), " ",
        named(el("code", { class: "muted", text: meta.fingerprint.slice(0, 12) }), "shell.fingerprint", null, "title")),
      el("p", { class: "row" }, origin(meta), say("shell.likelihood",
        () => ({ sum: number(sum, 3), mean: number(sum / report.logProbs.length, 3) }), "span", { class: "muted" })),
      el("div", { class: "texts" }, textOf("shell.source", meta.sourceText, meta.languages[0]),
        textOf("shell.target", meta.targetText, meta.languages[1])),
      say("shell.rows", null, "p", { class: "rule" }),
      say("caution.weights", null, "p", { class: "caution" }),
      more(meta));
  }

  // ---- views as tabs
  function build(view) {
    view.section = el("section", { class: "view", id: `view-${view.id}`, role: "tabpanel", "aria-labelledby": `tab-${view.id}`,
      hidden: true });
    view.section.append(say(view.title, null, "h2"), say(`${view.id}.lead`, null, "p", { class: "lead" }));
    view.body = el("div");
    view.section.append(view.body);
    view.tab = say(view.title, null, "button", { type: "button", role: "tab", id: `tab-${view.id}`,
      "aria-controls": `view-${view.id}`, "aria-selected": "false", tabindex: "-1" });
    view.tab.addEventListener("click", () => show(view.id));
    byId("main").append(view.section);
    return view.tab;
  }
  function show(id, focus = false) {
    const next = views.find((view) => view.id === id) || views[0];
    if (!next) return;
    for (const view of views) {
      view.section.hidden = view !== next;
      view.tab.setAttribute("aria-selected", String(view === next));
      view.tab.tabIndex = view === next ? 0 : -1;
    }
    const moved = current !== next;
    current = next;
    if (!next.mounted) {
      next.mounted = true;
      next.mount(next.body);
    }
    if (next.shown) next.shown();
    next.tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (moved && !quiet && byId("views").getBoundingClientRect().top <= 0) byId("views").scrollIntoView({ block: "start" });
    if (focus) next.tab.focus({ preventScroll: true });
    remember();
  }
  function tabs() {
    const list = named(el("div", { class: "tabs", role: "tablist" }), "shell.views");
    views.sort((one, two) => ORDER.indexOf(one.id) - ORDER.indexOf(two.id));
    list.append(...views.map(build));
    list.addEventListener("keydown", (event) => {
      const at = views.indexOf(current);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
      if (to === undefined || !views[to]) return;
      event.preventDefault();
      show(views[to].id, true);
    });
    byId("views").append(list);
  }

  // ---- the address: which view, which head, which row; a file may be barred from storing anything else
  function remember() {
    if (quiet || !current) return;
    const parts = new URLSearchParams({ view: current.id });
    for (const name of ["stack", "layer", "head", "row"]) {
      if (selection[name] !== null) parts.set(name, selection[name]);
    }
    parts.set("lang", language());
    try { history.replaceState(null, "", `#${parts}`); } catch { /* a frame without an address of its own */ }
  }
  function asked() {
    const query = new URLSearchParams(location.search);
    const parts = new URLSearchParams(location.hash.slice(1));
    const lang = parts.get("lang") || query.get("lang");
    if ((lang === "en" || lang === "zh") && lang !== language()) speak(lang);
    return parts;
  }
  function chosen(parts, report) {
    const has = (stack, layer) => report.layer(stack, layer);
    const first = report.layersOf(report.stacks.at(-1) || "cross").at(-1);
    let layer = has(parts.get("stack"), Number(parts.get("layer"))) || first;
    if (!layer) return;
    const head = Number(parts.get("head"));
    const row = Number(parts.get("row"));
    select({ stack: layer.stack, layer: layer.layer, head: head >= 1 && head <= layer.heads ? head : 1,
      row: row > 0 && row < layer.rows ? row : 0, column: 0 });
  }

  // ---- language and theme
  function tools() {
    const other = () => { byId("language").textContent = language() === "zh" ? "English" : "中文";
      byId("language").lang = language() === "zh" ? "en" : "zh-CN"; };
    byId("language").addEventListener("click", () => speak(language() === "zh" ? "en" : "zh"));
    onLanguage(() => { other(); remember(); });
    other();
    byId("theme").append(say("shell.theme"));
    byId("theme").addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      repaint();
    });
    byId("skip").append(say("shell.skip"));
  }

  async function start() {
    performance.mark("script");
    tools();
    const parts = asked();
    byId("wait").textContent = t("shell.wait");
    let report;
    try {
      report = await Clearhead.load();
    } catch (error) {
      byId("wait").className = "caution";
      byId("wait").textContent = `${t("shell.broken")} ${error.message}`;
      return;
    }
    performance.mark("unpacked");
    byId("wait").remove();
    about(report);
    chosen(parts, report);
    tabs();
    show(parts.get("view"));
    on("select", remember);
    window.addEventListener("hashchange", () => {
      const next = asked();
      chosen(next, report);
      show(next.get("view"));
    });
    quiet = false;
    performance.mark("ready");
    root.dataset.ready = "true";
  }

  Clearhead.show = show;
  document.addEventListener("DOMContentLoaded", start);
})();
