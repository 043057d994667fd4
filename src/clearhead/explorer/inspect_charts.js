"use strict";
// Drawings of the heads and tests views: axes, points, lines and strips, each with a summary, a table and a keyboard.
(() => {
  const { el, svg, t, onLanguage, number, roving, twin } = Clearhead;
  const HEIGHT = 320;
  const WIDEST = 760;

  const MARKS = {
    circle: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
    square: (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    diamond: (x, y, r) => `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
    triangle: (x, y, r) => `M${x} ${y - 1.2 * r}l${1.2 * r} ${2.2 * r}h${-2.4 * r}z`,
  };
  const SHAPES = { encoder: "circle", decoder: "square", cross: "diamond", all: "triangle" };

  function mark(shape, x, y, size, name) {
    return svg("path", { d: MARKS[shape](x, y, size), class: name });
  }

  /** With as many digits as the ticks beside it have. */
  const fixed = (value, digits) => value.toFixed(digits).replace("-", "−");

  /** Round numbers from `low` to `high`, about `count` of them. */
  function ticks(low, high, count) {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
    return { at: found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
  }

  /** The span of `values`, with 0 in it and some air; `least` keeps noise from filling the picture. */
  function span(values, least) {
    const low = Math.min(0, ...values);
    const high = Math.max(0, ...values);
    const air = Math.max(high - low, least) * 0.06;
    return [low < 0 ? low - air : 0, Math.max(high, low + least) + air];
  }

  /** Axes of a picture `width` wide: where numbers lie, and the drawing itself. `x.log` spaces by factors. */
  function frame(width, height, x, y) {
    const edge = { left: 56, right: 14, top: 12, bottom: 46 };
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart" });
    const along = x.log ? Math.log : (value) => value;
    const [first, last] = [along(x.span[0]), along(x.span[1])];
    const px = (value) => edge.left + ((along(value) - first) / (last - first || 1)) * (width - edge.left - edge.right);
    const py = (value) => height - edge.bottom - ((value - y.span[0]) / (y.span[1] - y.span[0]
      || 1)) * (height - edge.top - edge.bottom);
    const across = x.at ? { at: x.at } : ticks(...x.span, width < 480 ? 4 : 7);
    const upward = ticks(...y.span, 6);
    for (const value of upward.at) {
      const at = py(value);
      root.append(svg("line", { x1: edge.left, x2: width - edge.right, y1: at, y2: at, class: Math.abs(value) < 1e-12
        ? "zero" : "grid" }));
      root.append(svg("text", { x: edge.left - 8, y: at + 4, class: "tick end" }, fixed(value, upward.digits)));
    }
    for (const value of across.at) {
      const at = px(value);
      root.append(svg("line", { x1: at, x2: at, y1: height - edge.bottom, y2: height - edge.bottom + 5,
        class: "axis" }));
      root.append(svg("text", { x: at, y: height - edge.bottom + 19, class: "tick middle" }, x.text ? x.text(value)
        : fixed(value, across.digits)));
    }
    root.append(svg("line", { x1: edge.left, x2: width - edge.right, y1: height - edge.bottom,
      y2: height - edge.bottom, class: "axis" }));
    root.append(svg("text", { x: (edge.left + width - edge.right) / 2, y: height - 8, class: "title middle" },
      x.title));
    root.append(svg("text", { x: -(edge.top + height - edge.bottom) / 2, y: 14, transform: "rotate(-90)",
      class: "title middle" }, y.title));
    return { root, px, py };
  }

  /**
   * A picture that is drawn anew for its width and language. `draw(width)` gives { drawing, spots }, a spot being
   * { x, y, name, pick }: a place that keys and pointers reach. `summary()` is what a screen reader is told.
   */
  function chart({ draw, summary, table }) {
    const box = el("div", { class: "plot" });
    const readout = el("p", { class: "told muted" });
    let width = 0;
    function redraw() {
      const { drawing, spots } = draw(width);
      drawing.setAttribute("role", "img");
      drawing.setAttribute("aria-label", summary());
      const shown = el("div", { class: "picture" }, drawing);
      shown.style.width = `${width}px`;
      if (spots.length) shown.append(targets(spots, readout));
      readout.textContent = spots.length ? t("chart.hover") : "";
      box.replaceChildren(shown, readout);
    }
    new ResizeObserver((entries) => {
      const now = Math.min(WIDEST, Math.floor(entries[0].contentRect.width));
      if (now > 0 && now !== width) {
        width = now;
        redraw();
      }
    }).observe(box);
    onLanguage(() => width && redraw());
    return twin(box, table);
  }

  /** Buttons over the spots of a picture: one stop of the Tab key, arrows between them, the value read out below. */
  function targets(spots, readout) {
    const list = el("div", { class: "spots", role: "group", "aria-label": t("chart.points") });
    for (const spot of spots) {
      const button = el("button", { type: "button", class: "spot", "aria-label": spot.name });
      button.style.left = `${spot.x}px`;
      button.style.top = `${spot.y}px`;
      const tell = () => { readout.textContent = spot.name; };
      button.addEventListener("focus", tell);
      button.addEventListener("pointerenter", tell);
      if (spot.pick) button.addEventListener("click", spot.pick);
      list.append(button);
    }
    roving(list, ".spot", { columns: () => 1 });
    return list;
  }

  /** Numbers beside points, the first that fit: none lies over another. */
  function labels(root, points) {
    const taken = [];
    for (const { x, y, text } of points) {
      const box = [x + 6, y - 7, x + 10 + 6.4 * text.length, y + 6];
      if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3]
        && other[1] < box[3])) continue;
      taken.push(box);
      root.append(svg("text", { x: x + 8, y: y + 4, class: "label" }, text));
    }
  }

  /** Points { x, y, group, label, name, pick }: shape and outline tell the group, a number the head. */
  function scatter({ points, x, y, summary, table }) {
    const most = (side) => span(points().map((each) => each[side]), 1e-4);
    return chart({
      summary,
      table,
      draw(width) {
        const all = points();
        const { root, px, py } = frame(width, HEIGHT + 60, { span: most("x"), title: x() },
          { span: most("y"), title: y() });
        const placed = all.map((each) => ({ ...each, px: px(each.x), py: py(each.y) }));
        for (const each of placed) root.append(mark(SHAPES[each.group], each.px, each.py, 4.5, `mark ${each.group}`));
        labels(root, [...placed].sort((a, b) => b.y - a.y).map((each) => ({ x: each.px, y: each.py,
          text: each.label })));
        return { drawing: root, spots: placed.map((each) => ({ x: each.px, y: each.py, name: each.name,
          pick: each.pick })) };
      },
    });
  }

  /** Lines { group, name, x: [], y: [] } over one axis, and perhaps a `rule` across; every number can be reached. */
  function lines({ series, x, y, log, at, rule = null, summary, table }) {
    return chart({
      summary,
      table,
      draw(width) {
        const all = series();
        const xs = all.flatMap((each) => each.x);
        const ys = all.flatMap((each) => each.y).filter((value) => value !== null);
        const reach = log ? [Math.min(...xs), Math.max(...xs)] : span(xs, 1e-4);
        const { root, px, py } = frame(
          width, HEIGHT,
          { span: reach, title: x(), log, at: at && at(), text: at && ((value) => String(value)) },
          { span: span(rule ? [...ys, rule()] : ys, 1e-4), title: y() },
        );
        if (rule) root.append(svg("line", { x1: px(reach[0]), x2: px(reach[1]), y1: py(rule()), y2: py(rule()),
          class: "seed" }));
        const spots = [];
        for (const each of all) {
          const places = each.x.map((value, index) => ({ value, y: each.y[index] }))
            .filter((place) => place.y !== null);
          const path = places.map((place, index) =>
            `${index ? "L" : "M"}${px(place.value).toFixed(1)} ${py(place.y).toFixed(1)}`);
          root.append(svg("path", { d: path.join(""), class: `line ${each.group}` }));
          for (const place of places) {
            root.append(mark(SHAPES[each.group], px(place.value), py(place.y), 3.6, `mark ${each.group}`));
            spots.push({ x: px(place.value), y: py(place.y),
              name: `${each.name} · ${x()} ${number(place.value, 2)} · ${y()} ${number(place.y, 3)}` });
          }
        }
        return { drawing: root, spots };
      },
    });
  }

  /** A row each, on one scale: { name, group, points: [{ value, shape, name, pick }], lines: [value] }. */
  function strips({ rows, most, x, summary, table }) {
    const HIGH = 26;
    return chart({
      summary,
      table,
      draw(width) {
        const all = rows();
        const left = width < 480 ? 84 : 120;
        const height = all.length * HIGH + 62;
        const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart" });
        const px = (value) => left + (value / most()) * (width - left - 20);
        const scale = ticks(0, most(), width < 480 ? 4 : 7);
        const foot = all.length * HIGH + 12;
        for (const value of scale.at) {
          root.append(svg("line", { x1: px(value), x2: px(value), y1: 6, y2: foot, class: value ? "grid" : "axis" }));
          root.append(svg("text", { x: px(value), y: foot + 17, class: "tick middle" }, fixed(value, scale.digits)));
        }
        root.append(svg("text", { x: (left + width) / 2, y: height - 8, class: "title middle" }, x()));
        const spots = [];
        all.forEach((row, index) => {
          const y = index * HIGH + 22;
          root.append(svg("text", { x: left - 10, y: y + 4, class: "tick end" }, row.name));
          root.append(svg("line", { x1: left, x2: width - 20, y1: y, y2: y, class: "grid" }));
          for (const value of row.lines || []) {
            root.append(svg("line", { x1: px(value), x2: px(value), y1: y - 10, y2: y + 10, class: "seed" }));
          }
          for (const point of row.points) {
            const size = { circle: 4.2, diamond: 5, square: 5.5 }[point.shape];
            root.append(mark(point.shape, px(point.value), y, size, `mark ${row.group}`));
            spots.push({ x: px(point.value), y, name: point.name, pick: point.pick });
          }
        });
        return { drawing: root, spots };
      },
    });
  }

  /** Which shape and colour belongs to which stack. */
  function key(groups) {
    return el("p", { class: "key muted" }, ...groups.map((group) => el(
      "span", { class: "entry" },
      svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, class: "chart", "aria-hidden": "true" },
        mark(SHAPES[group], 8, 8, 4.5, `mark ${group}`)),
      Clearhead.say(`stack.${group}`),
    )));
  }

  Clearhead.charts = { scatter, lines, strips, key };
})();
