"use strict";
// One map in full: a cursor for its cells, exact numbers, what may be hidden and joined, and the evidence beside it.
(() => {
  const { el, t, say, named, number, percent, colour, canvas, select, selection, on, onLanguage, onTheme, tokenText, download,
    csv, announce, isolated, twin, matrixTable, arranged, measure, paint, peakOf, printed, rowText, wrapped } = Clearhead;
  const ZOOMS = [4, 5, 6, 8, 10, 13, 16, 20, 26, 34, 44, 56];
  const LARGEST = 8000; // pixels of a picture's side
  const WHOLE = 40; // so many rows are seen whole, and the page scrolls; more scroll within the frame

  const state = { zoom: null, cursor: { row: 0, column: 0 }, model: null, sizes: null, peak: 1 };
  const options = { ends: false, punctuation: false, words: false, log: false, own: false };
  const parts = {};
  let frame = 0;
  let dirty = true;

  const unit = () => ({ stack: selection.stack, layer: selection.layer, head: selection.head });
  const report = () => Clearhead.report;
  const shown = () => parts.section && parts.section.offsetParent !== null;

  // ---- the canvas: a window that follows the scrolling of a box as large as the whole map
  function draw() {
    frame = 0;
    const box = parts.scroller;
    const { sizes } = state;
    const [width, height] = [Math.min(box.clientWidth, sizes.width), Math.min(box.clientHeight, sizes.height)];
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    const node = parts.canvas;
    if (node.width !== Math.round(width * ratio) || node.height !== Math.round(height * ratio)) {
      node.width = Math.round(width * ratio);
      node.height = Math.round(height * ratio);
      node.style.width = `${width}px`;
      node.style.height = `${height}px`;
    }
    const context = node.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(context, state.model, sizes, { width, height, x: box.scrollLeft, y: box.scrollTop, cursor: state.cursor, options,
      peak: state.peak });
  }
  const redraw = () => { if (!frame) frame = requestAnimationFrame(draw); };

  function fitting() {
    const wide = parts.scroller.clientWidth || 600;
    const room = (wide - measure(state.model, 13, labelRoom()).left - 8) / (state.model.columns.length + (state.model.hides ? 1.5 : 0));
    return Math.max(ZOOMS[0], Math.min(44, Math.floor(room)));
  }
  const labelRoom = () => (window.innerWidth < 700 ? 104 : 190);

  // Works the map out anew: another head, or another way to show it.
  function refresh() {
    if (!shown()) { dirty = true; return; }
    dirty = false;
    state.model = arranged(report(), unit(), options);
    state.peak = options.own ? peakOf(state.model) : 1;
    const { row, column } = selection;
    const place = (list, at) => Math.max(0, list.findIndex((each) => each.from.includes(at)));
    state.cursor = { row: place(state.model.rows, row), column: place(state.model.columns, column) };
    resize();
    tell();
    parts.twin.refresh();
  }
  function resize() {
    const cell = state.zoom || fitting();
    state.sizes = measure(state.model, cell, labelRoom());
    parts.space.style.width = `${state.sizes.width}px`;
    parts.space.style.height = `${state.sizes.height}px`;
    const most = state.model.rows.length <= WHOLE ? Infinity : Math.max(260, Math.round(window.innerHeight * 0.72));
    parts.scroller.style.height = `${Math.min(state.sizes.height + 18, most)}px`; // the frame, and a bar to scroll sideways
    draw();
  }
  function zoom(by) {
    const now = state.sizes.cell;
    const next = by > 0 ? ZOOMS.find((each) => each > now) : ZOOMS.findLast((each) => each < now);
    state.zoom = by === 0 ? null : next || now;
    resize();
    reveal();
  }
  function reveal() {
    const { sizes, cursor } = state;
    const box = parts.scroller;
    const [across, down] = [cursor.column * sizes.cell, cursor.row * sizes.cell];
    const [wide, high] = [box.clientWidth - sizes.left, box.clientHeight - sizes.top];
    if (across < box.scrollLeft) box.scrollLeft = across;
    if (across + sizes.cell > box.scrollLeft + wide) box.scrollLeft = across + sizes.cell - wide;
    if (down < box.scrollTop) box.scrollTop = down;
    if (down + sizes.cell > box.scrollTop + high) box.scrollTop = down + sizes.cell - high;
    redraw();
  }
  function intoWindow() { // for keys: the page follows the cell
    const { sizes, cursor } = state;
    const at = parts.scroller.getBoundingClientRect().top + sizes.top + cursor.row * sizes.cell - parts.scroller.scrollTop;
    const covered = parts.readout.getBoundingClientRect().bottom; // it stays in sight at the top
    if (at < covered) window.scrollBy(0, at - covered - 8);
    else if (at + sizes.cell > window.innerHeight) window.scrollBy(0, at + sizes.cell + 8 - window.innerHeight);
  }

  // ---- the cell in words
  function reading({ row, column }) {
    const { model } = state;
    const [query, key] = [model.rows[row], model.columns[column]];
    if (!query || !key) return "";
    const values = { query: isolated(query.query), row: query.from[0] + 1, predicts: isolated(query.predicts ?? ""), key: isolated(key.label),
      column: key.from[0] + 1 };
    const who = t(query.predicts === null ? "map.cell.reads" : "map.cell.predicts", values);
    if (!model.visible(row, column)) return `${who} ${t("map.cell.masked")}`;
    const extra = model.hides ? ` ${t("map.cell.removed", { share: percent(model.removed[row], 1) })}` : "";
    return `${who} ${t("map.cell.weight", { weight: printed(model, row, column) })}${extra}`;
  }
  function tell() {
    parts.readout.textContent = reading(state.cursor);
    const layer = report().layer(selection.stack, selection.layer);
    parts.precision.textContent = t(`map.precision.${layer.coding}`, { error: number(layer.scale / layer.steps, 3) });
    parts.flags.replaceChildren(...flags().map((text) => el("span", { class: "chip flag", text })));
    parts.flags.hidden = !parts.flags.childElementCount;
    parts.canvas.setAttribute("aria-label", Clearhead.summary(unit()));
    parts.summary.textContent = Clearhead.summary(unit());
    parts.scroller.setAttribute("aria-label", t("map.region", { unit: report().unitName(unit()) }));
    parts.card.replaceChildren(Clearhead.card(unit()));
    parts.legend.redraw();
    pickers();
  }
  function flags() {
    const { model } = state;
    const layer = report().layer(selection.stack, selection.layer);
    const mean = model.removed.reduce((sum, each) => sum + each, 0) / model.removed.length;
    return [
      options.own ? t("map.flag.own", { peak: number(state.peak, 3) }) : null,
      options.log ? t("map.flag.log") : null,
      model.hides ? t("map.flag.hidden", { share: percent(mean, 1) }) : null,
      options.words ? t("map.flag.words") : null,
      selection.head ? null : t("map.flag.mean", { heads: layer.heads }),
      layer.normalised ? null : t("map.flag.sums"),
    ].filter(Boolean);
  }
  function go(row, column, spoken) {
    const { model } = state;
    state.cursor = { row: Math.min(Math.max(row, 0), model.rows.length - 1), column: Math.min(Math.max(column, 0), model.columns.length - 1) };
    const { cursor } = state;
    parts.readout.textContent = reading(cursor);
    if (spoken) {
      announce(reading(cursor));
      reveal();
      intoWindow();
    } else redraw();
    select({ row: model.rows[cursor.row].from[0], column: model.columns[cursor.column].from[0] });
  }
  function keys(event) {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const { row, column } = state.cursor;
    const to = { ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1],
      Home: [row, 0], End: [row, Infinity], PageDown: [row + 10, column], PageUp: [row - 10, column] }[event.key];
    if (to) go(...to, true);
    else if (event.key === "+" || event.key === "=") zoom(1);
    else if (event.key === "-") zoom(-1);
    else if (event.key === "0") zoom(0);
    else if (event.key === "Enter") Clearhead.show("tokens", true);
    else if (event.key === "Escape") parts.head.focus();
    else return;
    event.preventDefault();
  }
  function cellAt(event) {
    const bounds = parts.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left - state.sizes.left, event.clientY - bounds.top - state.sizes.top];
    if (x < 0 || y < 0) return null;
    const row = Math.floor((y + parts.scroller.scrollTop) / state.sizes.cell);
    const column = Math.floor((x + parts.scroller.scrollLeft) / state.sizes.cell);
    return row < state.model.rows.length && column < state.model.columns.length ? { row, column } : null;
  }

  // ---- which head
  function pickers() {
    const layers = report().layersOf(selection.stack);
    const { heads } = report().layer(selection.stack, selection.layer);
    const fill = (list, values, label) => list.replaceChildren(...values.map((value) => el("option", { value, text: label(value) })));
    fill(parts.stack, report().stacks, (stack) => t(`stack.${stack}.long`));
    fill(parts.layer, layers.map((each) => each.layer), String);
    fill(parts.head, ["", ...Array(heads).keys()].map((each) => (each === "" ? "" : each + 1)), (head) => (head === "" ? t("map.mean") : String(head)));
    parts.stack.value = selection.stack;
    parts.layer.value = selection.layer;
    parts.head.value = selection.head ?? "";
  }
  function picked() {
    const stack = parts.stack.value;
    const layers = report().layersOf(stack);
    const layer = layers.find((each) => each.layer === Number(parts.layer.value)) || layers.at(-1);
    const head = parts.head.value === "" ? null : Math.min(Number(parts.head.value), layer.heads);
    const same = stack === selection.stack;
    select({ stack, layer: layer.layer, head, ...(same ? {} : { row: 0, column: 0 }) });
  }
  function step(by) {
    const all = report().layers.flatMap((each) => [...Array(each.heads).keys()].map((head) => ({ stack: each.stack, layer: each.layer, head: head + 1 })));
    const at = all.findIndex((each) => each.stack === selection.stack && each.layer === selection.layer && each.head === (selection.head ?? 1));
    const next = all[(at + by + all.length) % all.length];
    select({ ...next, ...(next.stack === selection.stack ? {} : { row: 0, column: 0 }) });
  }

  // ---- files
  const fileName = (end) => `attention-${selection.stack}-${selection.layer}-${selection.head ?? "mean"}.${end}`;
  function png() {
    const { model } = state;
    const most = Math.floor((LARGEST - 400) / Math.max(model.rows.length, model.columns.length));
    const sizes = measure(model, Math.min(most, Math.max(20, state.sizes.cell)), 220);
    const node = document.createElement("canvas");
    const wide = Math.max(sizes.width, 420);
    const small = "11px system-ui, sans-serif";
    const about = [[`${report().meta.model} ${report().meta.fingerprint.slice(0, 12)}`, ...flags()].join(" · "), t("shell.rows")]
      .flatMap((text) => wrapped(text, wide, small));
    const head = 28 + 15 * about.length;
    const ratio = (sizes.width + 40) * 2 > LARGEST || sizes.height * 2 > LARGEST ? 1 : 2;
    [node.width, node.height] = [(wide + 16) * ratio, (sizes.height + head + 12) * ratio];
    const context = node.getContext("2d");
    context.scale(ratio, ratio);
    const theme = colour.theme();
    context.fillStyle = theme.sheet;
    context.fillRect(0, 0, node.width, node.height);
    context.fillStyle = theme.ink;
    context.font = "600 14px system-ui, sans-serif";
    context.fillText(`${t("map.weights")} · ${report().unitName(unit())}`, 8, 20);
    context.fillStyle = theme.soft;
    context.font = small;
    about.forEach((text, line) => context.fillText(text, 8, 37 + 15 * line));
    context.translate(8, head);
    paint(context, model, sizes, { width: sizes.width, height: sizes.height, options, peak: state.peak });
    node.toBlob((blob) => download(fileName("png"), blob), "image/png");
  }
  function table() { // the weights as they are, whatever is hidden or joined on the screen
    const map = selection.head ? report().map(selection.stack, selection.layer, selection.head) : report().meanMap(selection.stack, selection.layer);
    const [queries, keyed] = [report().queries(selection.stack), report().keys(selection.stack)];
    const gold = selection.stack === "encoder" ? [] : report().tokens.gold;
    const rows = [["stack", "layer", "head", "row", "query", "predicts", "column", "key", "visible", "weight", "error"]];
    for (let row = 0; row < map.rows; row += 1) {
      for (let column = 0; column < map.columns; column += 1) {
        const cell = map.at(row, column);
        rows.push([selection.stack, selection.layer, selection.head ?? "mean", row + 1, tokenText(queries[row]),
          gold[row] ? tokenText(gold[row]) : "", column + 1, tokenText(keyed[column]), cell.visible ? 1 : 0,
          Number(cell.value.toPrecision(7)), Number(cell.error.toPrecision(4))]);
      }
    }
    download(fileName("csv"), csv(rows));
  }

  // ---- the view
  function box(name, key) {
    const input = el("input", { type: "checkbox", on: { change: () => { options[name] = input.checked; refresh(); } } });
    return el("label", null, input, " ", say(key));
  }
  function choose(name, key) {
    parts[name] = el("select", { id: `choice-${key}`, on: { change: picked } });
    return el("span", { class: "choose" }, say(key, null, "label", { for: parts[name].id }), " ", parts[name]);
  }
  function button(key, act, text = null) {
    const made = text ? named(el("button", { type: "button", text }), key) : say(key, null, "button", { type: "button" });
    made.addEventListener("click", act);
    return made;
  }
  function legend() {
    return canvas({ width: 230, height: 30, summary: () => t("overview.legend"), draw: (context, width) => {
      const theme = colour.theme();
      for (let x = 0; x < width; x += 1) {
        context.fillStyle = colour.css(colour.sequential(x / (width - 1)));
        context.fillRect(x, 0, 1, 12);
      }
      context.font = "11px system-ui, sans-serif";
      context.fillStyle = theme.soft;
      const peak = options.own ? number(state.peak, 2) : "1";
      const marks = options.log ? [["left", 0, "≤ .0001"], ["center", width / 2, ".01"], ["right", width, peak]] :
        [["left", 0, "0"], ["center", width / 2, t("overview.weight")], ["right", width, peak]];
      for (const [align, x, text] of marks) { context.textAlign = align; context.fillText(text, x, 26); }
    } });
  }
  function mount(section) {
    parts.section = section;
    if (!report().layers.length) {
      section.append(say("overview.none", null, "p", { class: "caution" }));
      return;
    }
    parts.canvas = el("canvas", { role: "img" });
    parts.space = el("div", { class: "map-space" }, parts.canvas);
    parts.scroller = el("div", { class: "map-scroll", tabindex: "0", role: "application", "aria-describedby": "map-keys" }, parts.space);
    parts.readout = el("p", { class: "readout num", id: "readout" });
    parts.precision = el("p", { class: "note" });
    parts.summary = el("p", { class: "note" });
    parts.flags = el("p", { class: "row" });
    parts.legend = legend();
    parts.card = el("aside", null);
    parts.twin = twin(parts.scroller, () => matrixTable({ rows: state.model.rows.map(rowText), columns: state.model.columns.map((each) => each.label),
      caption: t("map.table", { unit: report().unitName(unit()) }),
      cell: (r, c) => (state.model.visible(r, c) ? printed(state.model, r, c) : t("map.masked")) }));
    section.append(
      el("div", { class: "controls" }, choose("stack", "map.stack"), choose("layer", "map.layer"), choose("head", "map.head"),
        button("map.back", () => step(-1), "←"), button("map.on", () => step(1), "→")),
      el("div", { class: "controls" }, box("ends", "map.ends"), box("punctuation", "map.punctuation"), box("words", "map.words"),
        box("log", "map.log"), box("own", "map.own")),
      el("div", { class: "map-and-card" },
        el("div", { class: "map-side" }, parts.flags, parts.readout, parts.twin,
          el("div", { class: "controls" }, button("map.out", () => zoom(-1), "−"), button("map.in", () => zoom(1), "+"),
            button("map.fit", () => zoom(0)), button("map.png", png), button("map.csv", table), parts.legend),
          parts.summary, parts.precision, say("map.keys", null, "p", { class: "note", id: "map-keys" }),
          say("map.hatch", null, "p", { class: "note" })),
        parts.card));
    listen();
    refresh();
  }
  function listen() {
    const box_ = parts.scroller;
    box_.addEventListener("scroll", redraw, { passive: true });
    box_.addEventListener("keydown", keys);
    box_.addEventListener("pointermove", (event) => {
      const cell = cellAt(event);
      if (cell) parts.readout.textContent = reading(cell);
    });
    box_.addEventListener("pointerleave", () => { parts.readout.textContent = reading(state.cursor); });
    box_.addEventListener("click", (event) => {
      const cell = cellAt(event);
      if (cell) go(cell.row, cell.column, false);
    });
    box_.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1 : -1);
    }, { passive: false });
    window.addEventListener("resize", () => { if (shown()) resize(); });
    onLanguage(refresh);
    onTheme(() => { if (shown()) redraw(); });
    on("select", (_, changed) => {
      if (changed.some((name) => ["stack", "layer", "head"].includes(name)) || !shown()) refresh();
    });
  }

  Clearhead.view({ id: "map", title: "map.title", mount, shown: () => { if (dirty && parts.scroller) refresh(); } });
})();
