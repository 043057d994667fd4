"use strict";
// The token view: one prediction, the rows of all methods aligned over its tokens, and what each layer would say.
(() => {
  const { el, t, say, named, language, onLanguage, onTheme, number, percent, token, tokenText, table, matrixTable,
    select, on, announce } = Clearhead;
  const { rowsOf, rowName, reading, sideBox } = Clearhead.rows;
  const READERS = ["attention", "value-norms", "rollout"]; // what reads weights; the others ask the model

  let refresh = null;
  let stale = false;

  function mount(section) {
    const report = Clearhead.report;
    const count = report.tokens.gold.length;
    const chosen = () => Clearhead.selection;
    const at = () => Math.min(Math.max(chosen().row || 0, 0), count - 1);

    // ---- which prediction
    const strip = el("div", { class: "strip", role: "group" });
    named(strip, "tokens.choose");
    const choices = report.tokens.gold.map((gold, row) => {
      const chance = el("span", { class: "small num" }, percent(Math.exp(report.logProbs[row])));
      const button = el("button", { type: "button", class: "choice" }, token(gold), chance,
        say("tokens.option", { place: row + 1 }, "span", { class: "visually-hidden" }));
      button.addEventListener("click", () => select({ row }));
      strip.append(button);
      return button;
    });
    const back = el("button", { type: "button" }, "←");
    const forth = el("button", { type: "button" }, "→");
    named(back, "tokens.back");
    named(forth, "tokens.forth");
    const statement = el("p", { class: "statement" });
    for (const [button, by] of [[back, -1], [forth, 1]]) {
      button.addEventListener("click", () => {
        select({ row: at() + by });
        announce(statement.textContent);
      });
    }
    section.append(
      el("div", { class: "controls choosing" }, back, strip, forth),
      say("tokens.keys", {}, "p", { class: "note" }),
      statement,
    );

    // ---- the parts that follow it
    const parts = ["source", "prefix"].map(sideBox);
    const agreement = el("div", { class: "side" });
    const lens = el("div", { class: "side" });
    const given = [...new Set(["source", "prefix"].flatMap((side) => rowsOf(side, {}).map((row) => row.method)))];
    section.append(
      say("tokens.legend", {}, "p", { class: "note" }), ...parts.map((part) => part.box), agreement, lens,
      say("tokens.methods", {}, "h3"), ...Clearhead.parts.methodDetails([...given, "lens"]),
    );

    /** Which prediction is chosen: cheap, and told at once. */
    function tell() {
      const row = at();
      choices.forEach((button, place) => {
        if (place === row) button.setAttribute("aria-current", "true");
        else button.removeAttribute("aria-current");
        button.tabIndex = place === row ? 0 : -1;
      });
      back.disabled = row === 0;
      forth.disabled = row === count - 1;
      statement.textContent = t("tokens.statement", {
        row: row + 1, read: tokenText(report.tokens.prefix[row]), gold: tokenText(report.tokens.gold[row]),
        probability: percent(Math.exp(report.logProbs[row])),
      });
    }
    /** All that follows from it: at the next frame, once for however many keys, and only where it is seen. */
    let due = false;
    function draw() {
      due = false;
      for (const part of parts) part.draw(at());
      drawAgreement(agreement, at());
      drawLens(lens, at());
    }
    function follow() {
      tell();
      stale = true;
      if (due || section.closest("[hidden]")) return;
      due = true;
      requestAnimationFrame(refresh);
    }
    refresh = () => {
      if (stale) draw();
      stale = false;
    };

    // arrows move between predictions; the chosen one is the only stop of the Tab key
    strip.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at() + 1, ArrowDown: at() + 1, ArrowLeft: at() - 1, ArrowUp: at() - 1, Home: 0,
        End: count - 1 }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      const next = Math.min(Math.max(to, 0), count - 1);
      select({ row: next });
      choices[next].focus();
      choices[next].scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    section.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || strip.contains(event.target)) return;
      event.preventDefault();
      event.stopPropagation();
      choices[at()].focus();
    });
    on("select", (_, changed) => {
      if (changed.some((name) => ["row", "stack", "layer", "head"].includes(name))) follow();
    });
    onLanguage(follow);
    onTheme(follow);
    tell();
    draw();
  }

  /** Do the rows over the source put tokens in the same order? */
  function drawAgreement(box, row) {
    const tokens = Clearhead.report.tokens.source;
    const shown = rowsOf("source", Clearhead.selection);
    const readings = shown.map((each) => reading(each, row, tokens.length)).filter((each) => each.top >= 0);
    const title = say("tokens.agreement", {}, "h3");
    const sizes = readings.map((each) => each.values.map(Math.abs));
    if (readings.length < 2 || tokens.length < 3) {
      box.replaceChildren(title, el("p", { class: "untested" }, t("tokens.agreement.few")));
      return;
    }
    const open = box.querySelector("details[open]") !== null;
    const rho = sizes.map((one) => sizes.map((other) => Clearhead.rankCorrelation(one, other)));
    const details = el(
      "details", { open },
      el("summary", {}, t("tokens.agreement.table")),
      matrixTable({
        caption: t("tokens.agreement.table"),
        rows: readings.map((each) => rowName(each.row)), columns: readings.map((each) => rowName(each.row)),
        cell: (one, other) => number(rho[one][other], 2),
      }),
    );
    const told = [firsts(readings, tokens, shown.length), extremes(readings, rho)].join(language() === "zh" ? "" : " ");
    box.replaceChildren(
      title, el("p", { class: "agreement" }, told), say("tokens.caution", {}, "p", { class: "caution" }), details,
    );
  }

  /** How many of all rows that are shown have the same token on top; a row of zeros has none. */
  function firsts(readings, tokens, all) {
    const tally = new Map();
    for (const { top } of readings) tally.set(top, (tally.get(top) || 0) + 1);
    const [best, votes] = [...tally].sort((a, b) => b[1] - a[1] || a[0] - b[0])[0];
    const values = { count: votes, all, place: best + 1, token: tokenText(tokens[best]) };
    return t(votes === all ? "tokens.agreement.all" : "tokens.agreement.first", values);
  }

  /** The least and the most alike: a row that reads weights and one that asks the model, where there are both. */
  function extremes(readings, rho) {
    const all = [];
    readings.forEach((_, one) => readings.forEach((__, other) => {
      if (one < other && rho[one][other] !== null) all.push([rho[one][other], one, other]);
    }));
    const reads = (at) => READERS.includes(readings[at].row.method);
    const across = all.filter(([, one, other]) => reads(one) !== reads(other));
    const pairs = across.length > 1 ? across : all;
    if (pairs.length < 2) return "";
    pairs.sort((a, b) => a[0] - b[0]);
    const name = (at) => rowName(readings[at].row);
    const [low, high] = [pairs[0], pairs[pairs.length - 1]];
    return t(pairs === across ? "tokens.agreement.across" : "tokens.agreement.any", {
      one: name(low[1]), other: name(low[2]), low: number(low[0], 2),
      first: name(high[1]), second: name(high[2]), high: number(high[0], 2),
    });
  }

  /** The logit lens at this prediction, a row a layer. */
  function drawLens(box, row) {
    const report = Clearhead.report;
    const title = say("tokens.lens", {}, "h3");
    if (!report.lens.length) {
      box.replaceChildren(title, say("not_tested.long", {}, "p", { class: "untested" }));
      return;
    }
    const gold = report.tokens.gold[row];
    const place = (layer) => layer.places[row];
    const words = (key, cell) => ({ title: say(key), cell, numeric: false, sort: false });
    const figure = (key, value, digits, values = {}) => ({
      title: say(key, values), value, cell: (each) => number(value(each), digits), numeric: true, sort: false,
    });
    box.replaceChildren(
      title,
      table({
        caption: say("tokens.lens"),
        columns: [
          words("tokens.lens.layer", (each) => (each.layer ? String(each.layer) : say("tokens.lens.entering"))),
          words("tokens.lens.likeliest", (each) => likeliest(place(each).likeliest, gold)),
          figure("tokens.lens.rank", (each) => place(each).goldRank, 0, { token: tokenText(gold) }),
          figure("tokens.lens.probability", (each) => place(each).goldProbability, 3),
          figure("tokens.lens.divergence", (each) => place(each).divergence, 3),
        ],
        rows: report.lens,
      }),
    );
  }

  /** Tokens with their probabilities, the predicted one marked. */
  function likeliest(found, gold) {
    return el("span", { class: "likeliest" }, ...found.map(([each, probability]) => {
      const right = each.id === gold.id;
      const share = el("span", { class: "small num" }, percent(probability));
      return el("span", { class: right ? "guess right" : "guess" }, right ? "✓" : "", token(each), share);
    }));
  }

  Clearhead.view({ id: "tokens", title: "tokens.title", mount, shown: () => refresh() });
})();
