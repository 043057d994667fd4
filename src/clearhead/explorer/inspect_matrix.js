"use strict";
// One map made ready to be shown and painted: keys hidden, pieces joined to words, a window of cells on a canvas.
(() => {
  const { t, tokenText, isolated, colour, number, dark } = Clearhead;
  const LEAST = 1e-4; // where the logarithmic scale begins
  const FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans CJK SC", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", sans-serif';
  const GAP = 8;

  // ---- which keys and rows there are
  const isEnd = (tok) => tok.kind === "special";
  const isPunctuation = (tok) => tok.kind === "piece" && /^[\p{P}\p{S}]+$/u.test(tok.text.replaceAll("▁", "")) && !/^▁+$/.test(tok.text);
  function groups(tokens, words) { // tokens that stand together, as [[0], [1, 2], …]
    const found = [];
    tokens.forEach((tok, at) => {
      const last = found.at(-1);
      const joined = words && last && tok.word !== null && tokens[last[0]].word === tok.word;
      if (joined) last.push(at);
      else found.push([at]);
    });
    return found;
  }
  function joined(tokens, places, words) {
    const text = places.map((at) => tokenText(tokens[at])).join("");
    return (words && text.replaceAll("▁", " ").trim()) || text;
  }

  // A map as it is shown: rows and columns with labels and the places they come from; numbers with their errors; the
  // share of weight that hidden keys had in each row. Words are read as much as all their pieces together, and read
  // what their pieces read on average. Rows of a decoder belong to the word that they predict, and are named by the
  // whole word that was read before it.
  function arranged(report, unit, options) {
    const map = unit.head ? report.map(unit.stack, unit.layer, unit.head) : report.meanMap(unit.stack, unit.layer);
    const [queries, keys] = [report.queries(unit.stack), report.keys(unit.stack)];
    const written = unit.stack === "encoder" ? queries : report.tokens.gold;
    const hidden = keys.map((tok) => (options.ends && isEnd(tok)) || (options.punctuation && isPunctuation(tok)));
    const hides = hidden.some(Boolean);
    const columns = groups(keys, options.words).map((from) => from.filter((at) => !hidden[at])).filter((from) => from.length)
      .map((from) => ({ from, label: joined(keys, from, options.words) }));
    const read = groups(queries, options.words); // the encoder's queries are what is written: each group is itself
    const last = (from) => read.find((places) => places.includes(from[0]));
    const rows = groups(written, options.words).map((from) => ({ from, query: joined(queries, last(from), options.words),
      predicts: unit.stack === "encoder" ? null : joined(written, from, options.words) }));
    const removed = new Float32Array(map.rows);
    const kept = new Float32Array(map.rows).fill(1);
    for (let row = 0; hides && row < map.rows; row += 1) {
      kept[row] = 0;
      map.row(row).forEach((weight, at) => { if (hidden[at]) removed[row] += weight; else kept[row] += weight; });
    }
    const over = (row, column, read) => row.from.reduce((sum, r) => sum
      + column.from.reduce((part, c) => part + read(r, c), 0) / (kept[r] || 1), 0) / row.from.length;
    return {
      unit, map, rows, columns, hides,
      removed: rows.map((row) => row.from.reduce((sum, r) => sum + removed[r], 0) / row.from.length),
      value: (r, c) => over(rows[r], columns[c], (row, column) => map.weights[row * map.columns + column]),
      error: (r, c) => over(rows[r], columns[c], (row, column) => map.off(row, column)),
      visible: (r, c) => rows[r].from.some((row) => columns[c].from.some((column) => map.visible(row, column))),
    };
  }
  const rowText = (row) => (row.predicts === null ? isolated(row.query) : `${isolated(row.query)} → ${isolated(row.predicts)}`);
  function peakOf(model) {
    let most = 0;
    model.rows.forEach((_, r) => model.columns.forEach((__, c) => { most = Math.max(most, model.value(r, c)); }));
    return most;
  }
  function shade(value, options, peak) {
    const share = options.own && peak > 0 ? value / peak : value;
    if (!options.log) return share;
    return share <= LEAST ? 0 : 1 - Math.log10(Math.min(share, 1)) / Math.log10(LEAST);
  }

  // ---- measures and painting
  function measure(model, cell, most) {
    const context = document.createElement("canvas").getContext("2d");
    const size = Math.max(9, Math.min(13, cell - 1));
    context.font = `600 ${size}px ${FONT}`;
    const longest = (texts) => Math.ceil(texts.reduce((wide, text) => Math.max(wide, context.measureText(text).width), 0));
    const left = Math.min(most, longest(model.rows.map(rowText))) + 12;
    const top = Math.min(130, longest([...model.columns.map((each) => each.label), model.hides ? t("map.removed") : ""])) + 12;
    return { cell, size, left, top, width: left + cell * model.columns.length + (model.hides ? GAP + cell + 8 : 0) + 2,
      height: top + cell * model.rows.length + 2 };
  }
  function cut(context, text, most) {
    if (context.measureText(text).width <= most) return text;
    let letters = [...text];
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > most) letters = letters.slice(0, -1);
    return `${letters.join("")}…`;
  }
  function wrapped(text, most, font) { // in lines of at most `most` pixels; Chinese breaks after any of its characters
    const context = document.createElement("canvas").getContext("2d");
    context.font = font;
    return (text.match(/[\u2e80-\uffef][，。：；）、”]*\s*|[^\u2e80-\uffef\s]+\s*/gu) || []).reduce((lines, part) => {
      const longer = lines.at(-1) + part;
      if (lines.at(-1) && context.measureText(longer.trimEnd()).width > most) return [...lines, part];
      return [...lines.slice(0, -1), longer];
    }, [""]);
  }
  function rowLabel(context, row, most) { // where room is short both halves are cut, so that none is lost
    const whole = rowText(row);
    if (row.predicts === null) return cut(context, whole, most);
    if (context.measureText(whole).width <= most) return whole;
    const half = (most - context.measureText(" → ").width) / 2;
    const [query, predicts] = [row.query, row.predicts].map((text) => context.measureText(text).width);
    const first = Math.max(half, most - context.measureText(" → ").width - predicts);
    return rowText({ query: cut(context, row.query, first), predicts: cut(context, row.predicts, Math.max(half, 2 * half - query)) });
  }
  function hatch(context, theme) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.fillStyle = theme.sheet;
    pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = dark() ? "#59616f" : "#aaa69b";
    pen.beginPath();
    for (const from of [-6, 0, 6]) { pen.moveTo(from, 6); pen.lineTo(from + 6, 0); }
    pen.stroke();
    return context.createPattern(tile, "repeat");
  }
  // Paints what of the map lies in a window of `width` × `height` pixels that begins `x`, `y` into its cells.
  function paint(context, model, sizes, { width, height, x = 0, y = 0, cursor = null, options, peak }) {
    const theme = colour.theme();
    const { cell, left, top, size } = sizes;
    context.direction = "ltr";
    const masked = hatch(context, theme);
    context.fillStyle = theme.sheet;
    context.fillRect(0, 0, width, height);
    const seen = (offset, room, count) => [Math.max(0, Math.floor(offset / cell)), Math.min(count, Math.ceil((offset + room) / cell))];
    const [firstRow, endRow] = seen(y, height - top, model.rows.length);
    const [firstColumn, endColumn] = seen(x, width - left, model.columns.length);
    const edge = cell >= 8 ? 1 : 0;
    context.save();
    context.beginPath();
    context.rect(left, top, width - left, height - top);
    context.clip();
    for (let r = firstRow; r < endRow; r += 1) {
      for (let c = firstColumn; c < endColumn; c += 1) {
        const [across, down] = [left + c * cell - x, top + r * cell - y];
        const visible = model.visible(r, c);
        const value = visible ? model.value(r, c) : 0;
        const rgb = colour.sequential(shade(value, options, peak));
        context.fillStyle = visible ? colour.css(rgb) : masked;
        context.fillRect(across, down, cell - edge, cell - edge);
        if (visible && cell >= 34) written(context, value, rgb, across + (cell - edge) / 2, down + (cell - edge) / 2);
      }
      if (model.hides) bar(context, model.removed[r], left + model.columns.length * cell + GAP - x, top + r * cell - y, cell, theme);
    }
    if (cursor) outline(context, left + cursor.column * cell - x, top + cursor.row * cell - y, cell - edge, theme);
    context.restore();
    labels(context, model, sizes, { width, height, x, y, cursor, theme, size, firstRow, endRow, firstColumn, endColumn });
  }
  function written(context, value, rgb, x, y) {
    context.fillStyle = colour.ink(rgb);
    context.font = `11px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(value.toFixed(2).replace(/^0\./, "."), x, y);
  }
  function bar(context, share, x, y, cell, theme) {
    context.strokeStyle = theme.soft;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, cell - 2, cell - 2);
    context.fillStyle = theme.soft;
    context.fillRect(x, y, (cell - 1) * Math.min(1, share), cell - 1);
  }
  function outline(context, x, y, size, theme) {
    context.strokeStyle = theme.sheet;
    context.lineWidth = 5;
    context.strokeRect(x - 1, y - 1, size + 2, size + 2);
    context.strokeStyle = theme.accent;
    context.lineWidth = 2.5;
    context.strokeRect(x - 1, y - 1, size + 2, size + 2);
  }
  function labels(context, model, { cell, left, top }, seen) {
    const { width, height, x, y, cursor, theme, size } = seen;
    const every = Math.max(1, Math.ceil((size + 1) / cell));
    const font = (strong) => `${strong ? "600 " : ""}${size}px ${FONT}`;
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(0, top, left, height - top);
    context.clip();
    context.textAlign = "right";
    for (let r = seen.firstRow; r < seen.endRow; r += 1) {
      const strong = cursor && cursor.row === r;
      if (!strong && (r % every || (cursor && every > 1 && Math.abs(r - cursor.row) < every))) continue;
      context.font = font(strong);
      context.fillStyle = strong ? theme.accent : theme.ink;
      context.fillText(rowLabel(context, model.rows[r], left - 10), left - 6, top + (r + 0.5) * cell - y);
    }
    context.restore();
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, top);
    context.clip();
    context.textAlign = "left";
    const upright = (text, across, strong) => {
      context.save();
      context.translate(across, top - 6);
      context.rotate(-Math.PI / 2);
      context.font = font(strong);
      context.fillStyle = strong ? theme.accent : theme.ink;
      context.fillText(cut(context, text, top - 10), 0, 0);
      context.restore();
    };
    for (let c = seen.firstColumn; c < seen.endColumn; c += 1) {
      const strong = cursor && cursor.column === c;
      const close = cursor && every > 1 && Math.abs(c - cursor.column) < every; // one label over another
      if (strong || (!(c % every) && !close)) upright(model.columns[c].label, left + (c + 0.5) * cell - x, strong);
    }
    if (model.hides) upright(t("map.removed"), left + (model.columns.length + 0.5) * cell + GAP - x, false);
    context.restore();
  }
  function printed(model, r, c) {
    const error = model.error(r, c);
    const value = number(model.value(r, c), 4);
    return error > 5e-5 ? `≈ ${value} ± ${number(error, 4)}` : value;
  }

  Object.assign(Clearhead, { arranged, measure, paint, peakOf, printed, rowText, shade, wrapped, LEAST });
})();
