"use strict";
// The rows of all methods over the tokens of one side, aligned: coloured cells, their values, and the same as a table.
(() => {
  const { el, t, say, number, figure, dotted, token, tokenText, matrixTable, twin, colour, roving } = Clearhead;
  const { rowsOf, rowName, methodName, reading, doubt } = Clearhead.rows;
  const ROOMY = 16; // so many tokens leave room for the numbers within the cells

  /** What stands for one side: the picture of its rows, the same as numbers, and the value that is pointed at. */
  function sideBox(side) {
    const picture = el("div");
    const state = { readings: [], read: 0 };
    const tokens = () => (side === "source" ? Clearhead.report.tokens.source : Clearhead.report.tokens.prefix);
    const wrapped = twin(picture, () => matrixTable({
      caption: t("tokens.table", { side: t(`tokens.${side}`) }),
      rows: state.readings.map((each) => rowName(each.row)),
      columns: tokens().map(tokenText),
      cell: (line, place) => (place < state.read ? number(state.readings[line].values[place], 5) : "–"),
    }));
    const readout = el("p", { class: "told muted" });
    const none = say("tokens.none", {}, "p", { class: "untested" });
    const box = el("div", { class: "side" }, say(`tokens.${side}`, {}, "h3"), wrapped, readout, none);
    function draw(row) {
      state.read = side === "source" ? tokens().length : row + 1;
      state.readings = rowsOf(side, Clearhead.selection).map((each) => reading(each, row, state.read));
      const some = state.readings.length > 0;
      wrapped.hidden = !some;
      readout.hidden = !some;
      none.hidden = some;
      readout.textContent = t("tokens.hover");
      if (some) picture.replaceChildren(heat(state.readings, tokens(), row, readout, t(`tokens.${side}`)));
      wrapped.refresh();
    }
    return { box, draw };
  }

  /** One row a method, one column a token; each row has its own colours. */
  function heat(readings, tokens, t_, readout, label) {
    const roomy = tokens.length <= ROOMY;
    const head = el("tr", {});
    head.append(el("th", { scope: "col" }, say("column.method")));
    head.append(el("th", { scope: "col", class: "scale" }, say("tokens.scale")));
    for (const each of tokens) head.append(el("th", { scope: "col", class: roomy ? "" : "upright" }, token(each)));
    const body = el("tbody", {});
    readings.forEach((found, place) => {
      const first = place === 0 || readings[place - 1].row.method !== found.row.method;
      body.append(heatRow(found, tokens, t_, readout, { roomy, first }));
    });
    const kind = roomy ? "heat roomy" : "heat";
    const made = el("table", { class: kind, role: "grid", "aria-label": label }, el("thead", {}, head), body);
    for (const event of ["focusin", "pointerover"]) {
      made.addEventListener(event, ({ target }) => {
        const cell = target.closest(".cell");
        if (cell) readout.textContent = cell.getAttribute("aria-label");
      });
    }
    roving(made, "td.cell", { columns: () => tokens.length });
    return el("div", { class: "scroll" }, made);
  }

  /** `first`: the method is named, with its score; below it stand other layers of the same. */
  function heatRow(found, tokens, t_, readout, { roomy, first }) {
    const { row, values, most, top } = found;
    const certain = doubt(row, t_);
    const hidden = () => el("span", { class: "visually-hidden" }, methodName(row.method));
    const name = el("th", { scope: "row" }, first ? Clearhead.report.badge(row.method) : hidden());
    if (row.unit) name.append(el("span", { class: "small" }, row.unit()));
    if (certain) {
      const told = t(certain.good ? "tokens.converged" : "tokens.not_converged", certain.values);
      name.append(el("span", { class: certain.good ? "small muted" : "small warn" }, told));
    }
    const scale = t(row.signed ? "tokens.scale.signed" : "tokens.scale.plain", { most: figure(most) });
    const line = el("tr", { class: certain && !certain.good ? "doubtful" : "" }, name);
    line.append(el("td", { class: "scale small num" }, scale));
    tokens.forEach((each, place) => {
      const cell = el("td", { class: "cell num" });
      if (place >= values.length) {
        cell.classList.add("unread");
        cell.setAttribute("aria-label", t("tokens.unread", { token: tokenText(each) }));
      } else {
        fill(cell, found, place, roomy);
        const error = row.error(t_, place);
        cell.setAttribute("aria-label", t(error ? "tokens.value.error" : "tokens.value", {
          method: rowName(row), token: tokenText(each), value: number(values[place], 5), error: number(error, 5),
        }));
        if (place === top) cell.classList.add("top");
      }
      line.append(cell);
    });
    return line;
  }

  /** The colour of a value within its row, and a mark that says the same without colour. */
  function fill(cell, { row, values, most }, place, roomy) {
    const value = values[place];
    const share = most > 0 ? value / most : 0;
    const paint = row.signed ? colour.diverging(share) : colour.sequential(Math.max(0, share));
    cell.style.backgroundColor = colour.css(paint);
    cell.style.color = colour.ink(paint);
    const sign = row.signed && Math.abs(share) > 0.05 ? (value > 0 ? "+" : "−") : "";
    const text = roomy ? dotted(figure(value, most)) : sign;
    cell.classList.toggle("tight", text.length > 5);
    cell.dataset.text = text; // painted by the style sheet: what is said of the cell is its label
  }

  Clearhead.rows.sideBox = sideBox;
})();
