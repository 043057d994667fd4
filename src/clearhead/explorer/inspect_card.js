"use strict";
// The evidence card: all that was found about a head, its layer and its stack, and what was not tested.
(() => {
  const { el, t, tOr, number } = Clearhead;
  const HEAD = ["role", "statistics", "importance", "ablation-zero", "ablation-mean", "permutation", "uniform", "adversarial",
    "seed-null", "agreement"];
  const WIDER = ["ablation-zero", "permutation", "uniform", "adversarial", "seed-null"];
  const MAIN = { statistics: ["entropy_share", "confidence", "sparsity", "distance"], adversarial: ["max_jsd", "far", "tvd"] };
  const SHOWN = 6;
  const LONG = 24; // letters of a word that has to be broken into lines

  const label = (name) => (name === "role" ? t("overview.role") : tOr(`value.${name}`, name.replaceAll("_", " ")));
  const ROLES = ["role", "nearest"];
  const word = (name, said) => tOr(ROLES.includes(name) ? `role.${said}` : `word.${said}`, said);
  const patternOf = (found) => (found.words.role === "special-token" ? "sink" : found.words.role);

  // The numbers of a finding that stand in the table, and those that are folded away.
  function parts(found) {
    const all = Object.entries(found.values).filter(([name]) => name !== "worst" || found.pairs > 1); // of one pair it is the same
    if (found.method === "role") { // the role that was given, with its own score, baseline and threshold
      const own = ["score", "baseline", "threshold"].map((part) => [part, found.values[`${patternOf(found)}_${part}`]])
        .filter(([, value]) => value !== undefined);
      const names = own.map(([part]) => `${patternOf(found)}_${part}`);
      return { main: own, rest: all.filter(([name]) => !names.includes(name)) };
    }
    const taus = found.method === "agreement" && all.map(([name]) => name).filter((name) => name.endsWith("_tau"));
    const names = taus || MAIN[found.method] || all.slice(0, SHOWN).map(([name]) => name);
    return { main: all.filter(([name]) => names.includes(name)), rest: all.filter(([name]) => !names.includes(name)) };
  }

  function scope(found) {
    if (found.scope === "sentence") return t("card.sentence");
    const part = found.settings.pairs;
    const some = part !== undefined && part < found.pairs;
    return t(some ? "card.part" : "card.sample", some ? { pairs: part, all: found.pairs } : { pairs: found.pairs });
  }
  // A line a number, a column a scope: `columns` are [title, { name: text or node }].
  // `method` heads the column of names, with its calibration below.
  function figures(columns, caption, method = null) {
    const { report } = Clearhead;
    const names = [...new Set(columns.flatMap(([, cells]) => Object.keys(cells)))];
    if (!names.length) return null;
    const name = method ? report.title(method) : el("span", { class: "visually-hidden", text: t("card.value") });
    const head = [el("tr", null, el("th", { scope: "col" }, name), columns.map(([title]) => el("th", { scope: "col", class: "num", text: title }))),
      method ? el("tr", null, el("td", { class: "badge-cell", colspan: columns.length + 1 }, report.calibrated(method))) : null];
    const lines = names.map((name) => el("tr", null, el("th", { scope: "row", text: label(name) }),
      columns.map(([, cells]) => el("td", { class: String(cells[name]).length > LONG ? "num long" : "num" }, cells[name] ?? "–"))));
    return el("table", { class: "figures", "aria-label": caption }, el("thead", null, head), el("tbody", null, lines));
  }
  const roleFirst = ([one], [two]) => (two === "role") - (one === "role");
  function told(found, method) {
    const name = tOr(`method.${method}`, method);
    const chip = (key, said) => (key === "role" ? el("span", { class: "chip", text: word(key, said) }) : word(key, said));
    const numbers = (list) => Object.fromEntries(list.map(([key, value]) => [key, number(value)]));
    const words = (each) => Object.fromEntries(Object.entries(each.words).sort(roleFirst).map(([key, said]) => [key, chip(key, said)]));
    const main = found.map((each) => [scope(each), { ...words(each), ...numbers(parts(each).main) }]);
    const rest = found.map((each) => [scope(each), numbers(parts(each).rest)]);
    const settings = found.filter((each) => Object.keys(each.settings).length).map((each) => el("p", { class: "muted small",
      text: t("card.settings", { scope: scope(each), settings: Object.entries(each.settings).map(
        ([key, value]) => `${tOr(`setting.${key}`, key)} ${number(value)}`).join(" · ") }) }));
    const more = figures(rest, name);
    return [figures(main, name, method), more || settings.length ? el("details", null, el("summary", { text: t("card.all") }), more,
      settings) : null];
  }
  const absent = (method) => el("li", { class: "absent", data: { method } }, Clearhead.report.title(method),
    el("span", { class: "untested", text: t("not_tested") }));
  function line(method, unit) {
    const report = Clearhead.report;
    const found = ["sample", "sentence"].map((each) => report.finding(method, unit, each)).filter(Boolean);
    return found.length ? el("li", { data: { method } }, told(found, method)) : absent(method);
  }
  function list(methods, unit) {
    const others = [...new Set([...Clearhead.report.found.values()].filter((each) => !methods.includes(each.method)
      && each.unit.stack === unit.stack && each.unit.layer === (unit.layer ?? null) && each.unit.head === (unit.head ?? null))
      .map((each) => each.method))];
    return el("ul", { class: "evidence" }, [...methods, ...others].map((method) => line(method, unit)));
  }
  function lens(unit) { // what the layer would predict by itself; a layer of an encoder predicts nothing
    if (unit.stack === "encoder") return null;
    const report = Clearhead.report;
    const found = report.lens.find((each) => each.layer === unit.layer);
    return el("ul", { class: "evidence" }, found ? el("li", { data: { method: "lens" } },
      figures([[t("card.sentence"), lensFigures(found.places)]], t("method.lens"), "lens")) : absent("lens"));
  }
  function lensFigures(places) {
    const ranks = places.map((each) => each.goldRank).sort((one, two) => one - two);
    const first = ranks.filter((rank) => rank === 1).length / ranks.length;
    const mean = places.reduce((sum, each) => sum + (each.divergence ?? 0), 0) / places.length;
    return { "lens.first": number(first, 2), "lens.rank": number(ranks[Math.floor(ranks.length / 2)], 0),
      "lens.divergence": number(mean, 2) };
  }

  // The card of a unit; it is made anew for another language.
  Clearhead.card = (unit) => {
    const report = Clearhead.report;
    const layer = { stack: unit.stack, layer: unit.layer, head: null };
    const stack = { stack: unit.stack, layer: null, head: null };
    const bare = !report.evidence && !report.sample;
    return el("div", { class: "card evidence-card" },
      el("h3", { text: t("card.title", { unit: report.unitName(unit) }) }),
      bare ? el("p", { class: "caution untested", text: t("card.bare") }) : null,
      unit.head ? [el("h4", { text: t("card.head") }), list(HEAD, unit)] : null,
      el("details", { open: !unit.head }, el("summary", { class: "level", text: t("card.layer", { unit: report.unitName(layer) }) }), list(WIDER, layer), lens(unit)),
      el("details", { open: !unit.head }, el("summary", { class: "level", text: t("card.stack", { unit: report.unitName(stack) }) }), list(WIDER, stack)),
      el("p", { class: "note", text: t("card.note") }));
  };
})();
