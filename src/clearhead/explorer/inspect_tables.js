"use strict";
// Tables: sortable lists, matrices by windows, and the table beside every picture.
(() => {
  const { el, say, named, onLanguage } = Clearhead;
  const WINDOW = 32;
  const WHOLE = 64;
  const node = (content) => (content instanceof Node ? content : document.createTextNode(content ?? ""));

  function table({ caption, columns, rows, selected = null, pick = null, empty = null }) {
    const body = el("tbody");
    const heads = columns.map((column) => {
      const sortable = column.sort !== false && column.value;
      const content = sortable ? el("button", { type: "button", class: "sort" }, node(column.title)) : node(column.title);
      const head = el("th", { scope: "col", class: column.numeric ? "num" : null }, content);
      if (sortable) content.addEventListener("click", () => sort(column, head));
      return head;
    });
    let shown = [...rows];
    let order = null;
    const same = (one, two) => (typeof one === "number" ? one - two : String(one).localeCompare(String(two)));
    function arrange() {
      if (!order) return;
      const { column, down } = order; // what has no value stands last either way
      shown.sort((a, b) => {
        const [one, two] = [column.value(a), column.value(b)];
        if (one === null || one === undefined) return two === null || two === undefined ? 0 : 1;
        if (two === null || two === undefined) return -1;
        return down ? same(two, one) : same(one, two);
      });
    }
    function sort(column, head) {
      order = { column, down: order && order.column === column ? !order.down : Boolean(column.numeric) };
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      arrange();
      draw();
    }
    function line(row) {
      const cells = columns.map((column, at) => el(at ? "td" : "th", { scope: at ? null : "row",
        class: column.numeric ? "num" : null }, node(column.cell ? column.cell(row) : column.value(row))));
      const made = el("tr", null, cells);
      if (pick) {
        made.classList.add("pick");
        made.addEventListener("click", () => pick(row));
      }
      if (selected && selected(row)) made.setAttribute("aria-current", "true");
      return made;
    }
    function draw() {
      body.replaceChildren(...shown.map(line));
      if (!shown.length && empty) body.append(el("tr", null, el("td", { colspan: columns.length }, empty)));
    }
    const title = caption ? el("caption", null, node(caption)) : null;
    const box = el("div", { class: "scroll", tabindex: "0" },
      el("table", null, title, el("thead", null, el("tr", null, heads)), body));
    if (title) {
      title.id = `caption-${(table.made = (table.made || 0) + 1)}`;
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", title.id);
    }
    box.update = (next = shown) => { shown = [...next]; arrange(); draw(); };
    draw();
    return box;
  }

  function matrixTable({ caption, rows, columns, cell }) {
    const place = { row: 0, column: 0 };
    const high = rows.length > WHOLE ? WINDOW : rows.length;
    const wide = columns.length > WHOLE ? WINDOW : columns.length;
    const box = el("div", { class: "matrix" });
    const held = el("div", { class: "scroll", tabindex: "0", role: "group" });
    named(held, "shell.numbers");
    function draw() {
      const across = [...Array(Math.min(wide, columns.length - place.column)).keys()].map((at) => at + place.column);
      const down = [...Array(Math.min(high, rows.length - place.row)).keys()].map((at) => at + place.row);
      const heads = across.map((at) => el("th", { scope: "col", dir: "auto", translate: "no", text: columns[at] }));
      const lines = down.map((row) => el("tr", null,
        el("th", { scope: "row", dir: "auto", translate: "no", text: rows[row] }),
        across.map((column) => el("td", { class: "num", text: cell(row, column) }))));
      held.replaceChildren(el("table", { class: "numbers" }, caption ? el("caption", null, node(caption)) : null,
        el("thead", null, el("tr", null, el("td"), heads)), el("tbody", null, lines)));
      words.forEach((each) => each());
    }
    const words = [];
    function step(name, size, total) {
      if (size >= total) return null;
      const told = el("span", { class: "num" });
      const back = named(el("button", { type: "button", text: "−" }), `shell.${name}.back`);
      const on = named(el("button", { type: "button", text: "+" }), `shell.${name}.on`);
      const move = (by) => { place[name] = Math.min(Math.max(place[name] + by * size, 0), total - 1 - ((total - 1) % size)); draw(); };
      back.addEventListener("click", () => move(-1));
      on.addEventListener("click", () => move(1));
      words.push(() => {
        told.textContent = `${place[name] + 1}–${Math.min(place[name] + size, total)} / ${total}`;
        back.disabled = place[name] === 0;
        on.disabled = place[name] + size >= total;
      });
      return el("span", { class: "controls" }, say(`shell.${name}`), back, told, on);
    }
    box.append(...[step("row", high, rows.length), step("column", wide, columns.length)].filter(Boolean), held);
    draw();
    return box;
  }

  function twin(picture, makeTable) {
    const place = el("div", { class: "twin-table", hidden: true });
    const button = say("shell.table.show", null, "button", { type: "button", class: "small", "aria-expanded": "false" });
    const words = () => { button.textContent = Clearhead.t(place.hidden ? "shell.table.show" : "shell.table.hide"); };
    const box = el("div", { class: "twin" }, picture, button, place);
    const fill = () => { if (!place.hidden) place.replaceChildren(makeTable()); };
    button.addEventListener("click", () => {
      place.hidden = !place.hidden;
      button.setAttribute("aria-expanded", String(!place.hidden));
      words();
      fill();
    });
    onLanguage(() => { words(); fill(); });
    box.refresh = fill;
    return box;
  }

  Object.assign(Clearhead, { table, matrixTable, twin });
})();
