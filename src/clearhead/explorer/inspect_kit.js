"use strict";
// What every view builds with: elements, words in two languages, numbers, colours, canvases. The page's only global.
const Clearhead = { report: null };
(() => {
  const root = document.documentElement;
  const words = JSON.parse(document.getElementById("words").textContent);
  const heard = { language: [], theme: [], select: [] };

  // ---- elements: text is only ever text
  function attribute(node, name, value) {
    if (value === null || value === undefined || value === false) return;
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) attribute(node, name, value);
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
  }
  const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // ---- words
  const language = () => root.dataset.language;
  function put(text, values) {
    return text.replace(/\{(\w+)\}/g, (whole, name) => (values && name in values ? String(values[name]) : whole));
  }
  function t(key, values) {
    if (!Object.hasOwn(words, key)) {
      console.error(`no words for ${key}`);
      return key;
    }
    return put(words[key][language() === "zh" ? 1 : 0], values);
  }
  const tOr = (key, fallback) => (Object.hasOwn(words, key) ? t(key) : fallback);
  const spoken = new Map(); // the values of the words of an element; they may be functions of the language
  let speakers = 0;
  const told = (held) => (typeof held.values === "function" ? held.values() : held.values);
  function hold(node, kind, key, values) {
    const name = String((speakers += 1));
    spoken.set(name, { node: new WeakRef(node), kind, key, values });
    node.toggleAttribute("data-words", true);
    return node;
  }
  function say(key, values, tag = "span", attributes = null) {
    const node = el(tag, attributes);
    node.textContent = t(key, typeof values === "function" ? values() : values);
    return hold(node, "", key, values);
  }
  function named(node, key, values, kind = "aria-label") {
    node.setAttribute(kind, t(key, typeof values === "function" ? values() : values));
    return hold(node, kind, key, values);
  }
  function speak(next) {
    root.dataset.language = next;
    root.lang = next === "zh" ? "zh-CN" : "en";
    for (const [name, held] of spoken) {
      const node = held.node.deref();
      if (!node) spoken.delete(name);
      else if (held.kind) node.setAttribute(held.kind, t(held.key, told(held)));
      else node.textContent = t(held.key, told(held));
    }
    heard.language.forEach((act) => act(next));
  }
  const onLanguage = (act) => heard.language.push(act);
  const onTheme = (act) => heard.theme.push(act);

  // ---- selection, shared by all views
  const selection = { stack: null, layer: null, head: null, row: 0, column: 0 };
  function select(part) {
    const changed = Object.keys(part).filter((name) => selection[name] !== part[name]);
    if (!changed.length) return;
    Object.assign(selection, part);
    heard.select.forEach((act) => act(selection, changed));
  }
  const on = (event, act) => heard[event].push(act);

  // ---- numbers and tokens
  const minus = (text) => text.replaceAll("-", "−");
  const plain = (value, digits) => { // −0 is 0
    const text = value.toFixed(digits);
    return Number(text) === 0 ? "0" : minus(text);
  };
  function number(value, digits = 3) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    if (size && size < 0.5 * 10 ** -digits) return minus(value.toExponential(1));
    const text = value.toFixed(Number.isInteger(value) && size >= 1 ? 0 : digits);
    return Number(text) === 0 ? text.replace("-", "") : minus(text);
  }
  // A number among others as large as `size`: as many decimals as give `size` two digits, or a power of ten.
  function figure(value, size = Math.abs(value)) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value === 0) return "0";
    if (size > 0 && size < 0.001) return minus(value.toExponential(0));
    return plain(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 || !size ? 2 : 1 - Math.floor(Math.log10(size)));
  }
  const dotted = (text) => text.replace(/^([−+]?)0\./, "$1."); // without the zero that most small numbers share
  // Where there is room for few letters: three decimals at most, and "<.001" for what is nearer to zero than that.
  function brief(value, sign = false) {
    const size = Math.abs(value);
    if (value !== 0 && size < 0.001) return "<.001";
    return dotted((sign && value > 0 ? "+" : "") + plain(value, size < 0.0995 ? 3 : 2));
  }
  function percent(value, digits = 0) { // what is less than the last digit is said to be so: never a power of ten
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const least = 10 ** -digits;
    if (value > 0 && 100 * value < least) return `<${number(least, digits)} %`;
    return `${Number.isInteger(100 * value) ? number(100 * value, 0) : plain(100 * value, digits)} %`;
  }
  const signed = (value, digits = 3) => `${value > 0 ? "+" : ""}${number(value, digits)}`;
  const SPACE = "▁";
  const byte = (tok) => (tok.kind === "byte" ? tok.text.replace(/^<0x(..)>$/i, "$1").toUpperCase() : null);
  // Tokens of either direction stand side by side in one line: each keeps its own (Unicode's isolates).
  const isolated = (text) => `\u2068${text}\u2069`;
  const tokenText = (tok) => (byte(tok) ? `⟨${byte(tok)}⟩` : tok.text);
  function token(tok) {
    const node = el("span", { class: `token ${tok.kind}`, dir: "auto", translate: "no", lang: tok.lang || null });
    const hex = byte(tok);
    if (hex) named(node, "shell.byte", { hex }, "title").textContent = hex;
    else {
      tok.text.split(SPACE).forEach((part, place) => {
        if (place) node.append(el("span", { class: "space", text: SPACE }));
        if (part) node.append(part);
      });
    }
    return node;
  }

  // ---- colours: cividis (Nuñez, Anderson and Renslow 2018) at seventeen places, and two hues from the sheet
  const CIVIDIS = [[0, 34, 78], [0, 46, 106], [26, 56, 111], [50, 67, 109], [67, 78, 108], [83, 90, 109], [97, 101, 111],
    [111, 112, 115], [125, 124, 120], [140, 136, 120], [155, 148, 118], [171, 160, 114], [188, 174, 108], [205, 187, 99],
    [222, 201, 88], [240, 216, 70], [254, 232, 56]];
  const mix = (from, to, share) => from.map((part, at) => Math.round(part + (to[at] - part) * share));
  function sequential(x) {
    const place = Math.min(Math.max(x, 0), 1) * (CIVIDIS.length - 1);
    const below = Math.min(Math.floor(place), CIVIDIS.length - 2);
    return mix(CIVIDIS[below], CIVIDIS[below + 1], place - below);
  }
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const HUES = { false: { zero: [255, 255, 255], plus: [17, 83, 148], minus: [166, 67, 6] },
    true: { zero: [27, 31, 39], plus: [118, 186, 246], minus: [247, 156, 92] } };
  function diverging(x) {
    const { zero, plus, minus: less } = HUES[dark()];
    return mix(zero, x < 0 ? less : plus, Math.min(Math.abs(x), 1));
  }
  function light([red, green, blue]) {
    const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  }
  const colour = {
    sequential, diverging,
    css: ([red, green, blue]) => `rgb(${red} ${green} ${blue})`,
    ink: (rgb) => (light(rgb) > 0.18 ? "#000000" : "#ffffff"), // the larger contrast of the two
    theme: () => {
      const style = getComputedStyle(root);
      return Object.fromEntries(["ink", "soft", "line", "sheet", "accent", "hatch"].map(
        (name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    },
  };
  function repaint() { heard.theme.forEach((act) => act(dark())); }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  // ---- canvases in device pixels, with a summary for those who do not see them
  const canvases = new Set();
  function canvas({ width, height, draw, summary, class: kind }) {
    const node = el("canvas", { role: "img", class: kind });
    node.redraw = (wide = width, high = height) => {
      width = wide;
      height = high;
      const ratio = Math.max(1, window.devicePixelRatio || 1);
      node.width = Math.max(1, Math.round(width * ratio));
      node.height = Math.max(1, Math.round(height * ratio));
      node.style.width = `${width}px`;
      node.style.height = `${height}px`;
      const context = node.getContext("2d");
      context.scale(ratio, ratio);
      draw(context, width, height);
      if (summary) node.setAttribute("aria-label", summary());
    };
    node.redraw();
    canvases.add(new WeakRef(node));
    return node;
  }
  function redrawAll() {
    for (const held of canvases) {
      const node = held.deref();
      if (!node) canvases.delete(held);
      else if (node.isConnected) node.redraw();
    }
  }
  onTheme(redrawAll);
  onLanguage(redrawAll);

  // ---- keys and files
  function roving(container, selector, { columns = () => 1, pick = null, change = null } = {}) {
    const items = () => [...container.querySelectorAll(selector)];
    function to(node, focus) {
      items().forEach((each) => { each.tabIndex = each === node ? 0 : -1; });
      if (focus) node.focus();
      if (change) change(node);
    }
    container.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const all = items();
      const at = all.indexOf(event.target.closest(selector));
      if (at < 0) return;
      if (event.key === "Enter" && pick) {
        event.preventDefault();
        pick(all[at]);
        return;
      }
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns(), ArrowUp: at - columns(), Home: 0,
        End: all.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      if (all[next]) to(all[next], true);
    });
    const first = items().find((each) => each.tabIndex === 0) || items()[0];
    if (first) to(first, false);
    return { refresh: () => { const all = items(); if (all.length && !all.some((each) => each.tabIndex === 0)) to(all[0], false); } };
  }
  function download(name, content, type = "text/csv;charset=utf-8") {
    const blob = content instanceof Blob ? content : new Blob([content], { type });
    const address = URL.createObjectURL(blob);
    el("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }
  const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const csv = (rows) => rows.map((row) => row.map((cell) => quoted(String(cell ?? ""))).join(",")).join("\n") + "\n";
  function announce(text) { document.getElementById("live").textContent = text; }

  Object.assign(Clearhead, { el, svg, t, tOr, say, named, language, speak, onLanguage, onTheme, repaint, dark, selection,
    select, on, number, figure, dotted, brief, percent, signed, token, tokenText, isolated, colour, canvas, roving, download, csv, announce });
})();
