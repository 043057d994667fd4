"use strict";
// The evidence card: all that was found about a head, its layer and its stack, and what was not tested.
(() => {
  const { el, t, tOr, number } = Clearhead;
  const HEAD = ["role", "statistics", "importance", "ablation-zero", "ablation-mean", "permutation", "uniform", "adversarial",
    "seed-null", "agreement"];
  const WIDER = ["ablation-zero", "permutation", "uniform", "adversarial", "seed-null"];
  const MAIN = { statistics: ["entropy_share", "confidence", "sparsity", "distance"], adversarial: ["max_jsd", "far", "tvd"] };
  const SHOWN = 6;

  const label = (name) => tOr(`value.${name}`, name.replaceAll("_", " "));
  function figure(name, value) {
    return el("div", { class: "figure" }, el("dt", { text: label(name) }), el("dd", { class: "num", text: number(value) }));
  }
  function parts(found) {
    const all = Object.entries(found.values);
    if (found.method === "role") { // the role that was given, with its own score, baseline and threshold
      const given = all.filter(([name]) => name.startsWith(`${patternOf(found)}_`));
      const short = given.map(([name, value]) => [name.slice(patternOf(found).length + 1), value]);
      return { main: short, rest: all.filter((each) => !given.includes(each)) };
    }
    const taus = found.method === "agreement" && all.map(([name]) => name).filter((name) => name.endsWith("_tau"));
    const names = taus || MAIN[found.method] || all.slice(0, SHOWN).map(([name]) => name);
    return { main: all.filter(([name]) => names.includes(name)), rest: all.filter(([name]) => !names.includes(name)) };
  }
  const patternOf = (found) => (found.words.role === "special-token" ? "sink" : found.words.role);

  function scope(found) {
    return el("span", { class: "muted small", text: t(`scope.${found.scope}`, { pairs: found.pairs, tokens: found.tokens }) });
  }
  function told(found) {
    const { main, rest } = parts(found);
    const named = Object.entries(found.words).map(([name, word]) => el("span", { class: "chip", title: label(name),
      text: name === "role" ? tOr(`role.${word}`, word) : `${label(name)}: ${tOr(`word.${word}`, word)}` }));
    const settings = Object.entries(found.settings).map(([name, value]) => `${tOr(`setting.${name}`, name)} ${number(value)}`);
    const more = rest.length || settings.length ? el("details", null, el("summary", { text: t("card.all") }),
      el("dl", { class: "figures" }, rest.map(([name, value]) => figure(name, value))),
      settings.length ? el("p", { class: "muted small", text: `${t("card.settings")}: ${settings.join(" · ")}` }) : null) : null;
    return el("div", { class: "finding" }, named.length ? el("p", { class: "row" }, named) : null,
      el("dl", { class: "figures" }, main.map(([name, value]) => figure(name, value))), scope(found), more);
  }
  function line(method, unit) {
    const report = Clearhead.report;
    const found = ["sample", "sentence"].map((each) => report.finding(method, unit, each)).filter(Boolean);
    const body = found.length ? found.map(told) : [el("p", { class: "untested", text: t("not_tested") })];
    return el("li", { class: found.length ? null : "absent", data: { method } }, report.badge(method), body);
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
    const body = found ? lensFigures(found.places) : el("p", { class: "untested", text: t("not_tested") });
    return el("ul", { class: "evidence" }, el("li", { class: found ? null : "absent", data: { method: "lens" } }, report.badge("lens"), body));
  }
  function lensFigures(places) {
    const ranks = places.map((each) => each.goldRank).sort((one, two) => one - two);
    const first = ranks.filter((rank) => rank === 1).length / ranks.length;
    const mean = places.reduce((sum, each) => sum + (each.divergence ?? 0), 0) / places.length;
    return el("dl", { class: "figures" },
      [["card.lens.first", number(first, 2)], ["card.lens.rank", number(ranks[Math.floor(ranks.length / 2)], 0)],
        ["card.lens.divergence", number(mean, 2)]].map(([key, text]) => el("div", { class: "figure" },
        el("dt", { text: t(key) }), el("dd", { class: "num", text }))));
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
