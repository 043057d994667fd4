"use strict";
// All heads of all stacks at a glance: small pictures in which no cell is lost, by layer or in the order of a finding.
(() => {
  const { el, t, tOr, say, named, number, brief, percent, isolated, colour, canvas, roving, select, selection, on, onLanguage } = Clearhead;
  const SMALL = 64; // cells of a picture: larger maps show the largest weight of each block
  const SIDE = 72; // pixels of the longer side

  const UNSEEN = [128, 128, 128, 60];
  const SHADES = new Uint8Array(4 * 256);
  for (let shade = 0; shade < 256; shade += 1) SHADES.set([...colour.sequential(shade / 255), 255], 4 * shade);

  // Sort orders: where the number is found, and whether large ones come first
  const ORDERS = {
    layer: null,
    role: { method: "role" },
    importance: { method: "importance", value: "importance", down: true },
    ablation: { method: "ablation-zero", value: "delta_nll", down: true },
    entropy: { method: "statistics", value: "entropy_share", down: false },
  };

  // ---- a map as a picture
  function pooled(map) {
    const [rows, columns] = [Math.min(map.rows, SMALL), Math.min(map.columns, SMALL)];
    const most = new Float32Array(rows * columns).fill(-1); // −1: nothing there can be seen
    for (let row = 0; row < map.rows; row += 1) {
      const to = Math.floor((row * rows) / map.rows) * columns;
      for (let column = 0; column < map.columns; column += 1) {
        if (!map.visible(row, column)) continue;
        const at = to + Math.floor((column * columns) / map.columns);
        const weight = map.weights[row * map.columns + column];
        if (weight > most[at]) most[at] = weight;
      }
    }
    return { rows, columns, most };
  }
  function thumbnail(map, whole) {
    const { rows, columns, most } = pooled(map);
    const peak = whole ? 1 : most.reduce((one, two) => Math.max(one, two), 1e-9);
    const longest = Math.max(map.rows, map.columns);
    const node = el("canvas", { role: "img", width: columns, height: rows, "aria-hidden": "true" });
    node.style.width = `${Math.max(20, Math.round((SIDE * map.columns) / longest))}px`;
    node.style.height = `${Math.max(20, Math.round((SIDE * map.rows) / longest))}px`;
    const context = node.getContext("2d");
    const image = context.createImageData(columns, rows);
    for (let at = 0; at < most.length; at += 1) {
      if (most[at] < 0) image.data.set(UNSEEN, 4 * at);
      else {
        const shade = Math.round(255 * Math.min(1, most[at] / peak));
        image.data.set(SHADES.subarray(4 * shade, 4 * shade + 4), 4 * at);
      }
    }
    context.putImageData(image, 0, 0);
    node.pooled = { rows, columns, most, peak };
    return node;
  }

  // ---- a map in words
  function facts(map) {
    const mass = new Float64Array(map.columns);
    let [largest, row, column] = [-1, 0, 0];
    for (let r = 0, at = 0; r < map.rows; r += 1) {
      for (let c = 0; c < map.columns; c += 1, at += 1) {
        const weight = map.weights[at];
        mass[c] += weight / map.rows;
        if (weight > largest) [largest, row, column] = [weight, r, c];
      }
    }
    const most = mass.reduce((best, each, at) => (each > mass[best] ? at : best), 0);
    return { largest, row, column, most, share: mass[most] };
  }
  function summary(unit) {
    const report = Clearhead.report;
    const map = unit.head ? report.map(unit.stack, unit.layer, unit.head) : report.meanMap(unit.stack, unit.layer);
    const found = facts(map);
    const keys = report.keys(unit.stack).map(Clearhead.tokenText);
    return t("overview.summary", { unit: report.unitName(unit), rows: map.rows, columns: map.columns, token: isolated(keys[found.most]),
      share: percent(found.share), largest: number(found.largest, 2), query: report.rowLabel(unit.stack, found.row),
      key: isolated(keys[found.column]) });
  }

  // ---- what stands below a picture
  function first(found, names) {
    const name = names.find((each) => found.values[each] !== undefined && found.values[each] !== null);
    return name === undefined ? null : found.values[name];
  }
  function valueOf(order, unit) {
    const found = Clearhead.report.finding(order.method, unit);
    if (!found) return null;
    return first(found, [order.value, ...Object.keys(found.values)]);
  }
  function role(unit) {
    const found = Clearhead.report.finding("role", unit);
    return found ? found.words.role || null : null;
  }
  function figures(unit) {
    const line = [["ablation", true], ["importance", false], ["entropy", false]].map(([name, sign]) => {
      const value = valueOf(ORDERS[name], unit);
      return value === null ? null : named(el("span", { class: "num" }, say(`overview.${name}.short`), ` ${brief(value, sign)}`),
        `overview.by.${name}`, null, "title");
    });
    return line.filter(Boolean);
  }

  function thumb(unit, state) {
    const report = Clearhead.report;
    const picture = thumbnail(report.map(unit.stack, unit.layer, unit.head), !state.own);
    const given = role(unit);
    const name = el("span", { class: "name" }, `${unit.layer}.${unit.head}`);
    const label = given ? el("span", { class: "role", text: tOr(`role.${given}`, given) }) :
      say("not_tested", null, "span", { class: "role untested" });
    const numbers = figures(unit);
    const told = el("span", { class: "figures" }, numbers);
    const button = el("button", { type: "button", class: "thumb", tabindex: "-1", data: { unit: `${unit.stack} ${unit.layer}.${unit.head}` } },
      state.order === "layer" ? name : el("span", { class: "name" }, say(`stack.${unit.stack}`), ` ${unit.layer}.${unit.head}`),
      el("span", { class: "picture" }, picture), label, told);
    const more = el("span", { class: "visually-hidden" }); // after what is seen, so that it can be called by that
    button.append(more);
    const words = () => {
      if (given) label.textContent = tOr(`role.${given}`, given);
      more.textContent = summary(unit);
    };
    words();
    button.words = words;
    button.unit = unit;
    button.addEventListener("click", () => pick(unit));
    return button;
  }
  function pick(unit) {
    select({ stack: unit.stack, layer: unit.layer, head: unit.head });
    Clearhead.show("map");
  }

  // ---- the grid
  function units(state) {
    const found = [];
    for (const layer of Clearhead.report.layers) {
      if (state.stack !== "all" && layer.stack !== state.stack) continue;
      for (let head = 1; head <= layer.heads; head += 1) {
        const unit = { stack: layer.stack, layer: layer.layer, head };
        if (state.role === "all" || (role(unit) || "") === state.role) found.push(unit);
      }
    }
    return found;
  }
  function sorted(all, name) {
    const order = ORDERS[name];
    const key = name === "role" ? (unit) => role(unit) : (unit) => valueOf(order, unit);
    const keyed = all.map((unit) => [key(unit), unit]);
    keyed.sort(([one], [two]) => {
      if (one === null || two === null) return (one === null) - (two === null);
      if (typeof one === "string") return one.localeCompare(two);
      return order.down ? two - one : one - two;
    });
    return keyed.map(([, unit]) => unit);
  }
  function byLayer(all, state) {
    const boxes = [];
    for (const stack of Clearhead.report.stacks) {
      const of = all.filter((unit) => unit.stack === stack);
      if (!of.length) continue;
      const rows = [...new Set(of.map((unit) => unit.layer))].map((layer) => el("div", { class: "layer" },
        say("overview.layer", { layer }, "span", { class: "layer-name" }),
        el("div", { class: "thumbs" }, of.filter((unit) => unit.layer === layer).map((unit) => thumb(unit, state)))));
      boxes.push(el("section", { class: "stack" }, say(`stack.${stack}.long`, null, "h3"), rows));
    }
    return [el("div", { class: "stacks" }, boxes)];
  }

  function choice(key, options, change) {
    const list = el("select", { id: `choice-${key}`, on: { change: () => change(list.value) } },
      options.map(([value, label]) => { label.value = value; return label; }));
    return el("span", { class: "choose" }, say(key, null, "label", { for: list.id }), " ", list);
  }
  const option = (key) => say(key, null, "option");

  function mount(section) {
    const report = Clearhead.report;
    if (!report.layers.length) {
      section.append(say("overview.none", null, "p", { class: "caution" }));
      return;
    }
    const state = { order: "layer", stack: "all", role: "all", own: false };
    const grid = named(el("div", { class: "overview", role: "group" }), "overview.grid");
    const count = el("p", { class: "note", role: "status" });
    const flag = say("overview.own.flag", null, "p", { class: "caution", hidden: true });
    function draw() {
      const all = units(state);
      grid.replaceChildren(...(state.order === "layer" ? byLayer(all, state) :
        [el("div", { class: "thumbs flat" }, sorted(all, state.order).map((unit) => thumb(unit, state)))]));
      count.textContent = t("overview.count", { shown: all.length, all: report.layers.reduce((sum, each) => sum + each.heads, 0) });
      flag.hidden = !state.own;
      mark();
      keys.refresh();
    }
    function mark() {
      for (const button of grid.querySelectorAll(".thumb")) {
        const own = ["stack", "layer", "head"].every((name) => button.unit[name] === selection[name]);
        if (own) button.setAttribute("aria-current", "true");
        else button.removeAttribute("aria-current");
      }
    }
    const roles = [...new Set(report.findings("role").map((each) => each.words.role).filter(Boolean))].sort();
    const change = (name) => (value) => { state[name] = value; draw(); };
    const rolesList = [["all", option("overview.all")], ...roles.map((each) => [each, named(el("option", { text: tOr(`role.${each}`, each) }), "overview.role.option", null, "title")])];
    const own = el("input", { type: "checkbox", on: { change: () => { state.own = own.checked; draw(); } } });
    const keys = roving(grid, ".thumb", { columns: () => across(grid), pick: (button) => pick(button.unit) });
    section.append(
      el("div", { class: "controls" },
        choice("overview.order", Object.keys(ORDERS).map((name) => [name, option(`overview.by.${name}`)]), change("order")),
        choice("overview.stack", [["all", option("overview.all")], ...report.stacks.map((stack) => [stack, option(`stack.${stack}.long`)])], change("stack")),
        roles.length ? choice("overview.role", rolesList, change("role")) : null,
        el("label", null, own, " ", say("overview.own"))),
      el("div", { class: "row legend" }, legend(), say("overview.hint", null, "span", { class: "note" })),
      flag, count, grid);
    onLanguage(() => {
      grid.querySelectorAll(".thumb").forEach((button) => button.words());
      rolesList.slice(1).forEach(([each, node]) => { node.textContent = tOr(`role.${each}`, each); });
      count.textContent = t("overview.count", { shown: grid.querySelectorAll(".thumb").length,
        all: report.layers.reduce((sum, each) => sum + each.heads, 0) });
    });
    on("select", () => mark());
    draw();
  }
  function across(grid) { // how many pictures stand in the line of the one in focus
    const own = document.activeElement.closest(".thumbs");
    const top = document.activeElement.offsetTop;
    return own ? [...own.children].filter((each) => each.offsetTop === top).length : 1;
  }
  function legend() {
    return canvas({ width: 190, height: 30, class: "legend", summary: () => t("overview.legend"), draw: (context, width) => {
      const theme = colour.theme();
      for (let x = 0; x < width; x += 1) {
        context.fillStyle = colour.css(colour.sequential(x / (width - 1)));
        context.fillRect(x, 0, 1, 12);
      }
      context.fillStyle = theme.soft;
      context.font = "11px system-ui, sans-serif";
      context.fillText("0", 0, 26);
      context.textAlign = "center";
      context.fillText(t("overview.weight"), width / 2, 26);
      context.textAlign = "right";
      context.fillText("1", width, 26);
    } });
  }

  Clearhead.summary = summary;
  Clearhead.facts = facts;
  Clearhead.pooled = pooled;
  Clearhead.view({ id: "overview", title: "overview.title", mount });
})();
