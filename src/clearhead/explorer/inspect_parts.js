"use strict";
// What the heads and the tests view share: numbers of findings, columns of tables, where numbers come from, methods.
(() => {
  const { el, say, tOr, onLanguage } = Clearhead;
  const STACKS = ["encoder", "decoder", "cross"];
  const unitName = (unit) => Clearhead.report.unitName(unit);

  /** The number of a finding by the first of `names` that it has, or its only one; null if it was not tested. */
  function valueOf(finding, ...names) {
    if (!finding) return null;
    const all = Object.keys(finding.values);
    const name = names.find((each) => all.includes(each)) ?? (all.length === 1 ? all[0] : undefined);
    return name === undefined ? null : finding.values[name];
  }

  /** A table that stays: its cells follow the language. */
  function living(list) {
    onLanguage(() => list.update());
    return list;
  }

  /** Whether numbers are about this sentence or a sample, and how many pairs of it, said plainly. */
  function scopeLine(found) {
    if (!found) return null;
    const part = found.settings && found.settings.pairs;
    const some = found.scope === "sample" && part !== undefined && part < found.pairs;
    const words = some ? "scope.part" : `scope.${found.scope}`;
    const values = { pairs: some ? part : found.pairs, all: found.pairs, tokens: found.tokens };
    return say(words, values, "p", { class: "note scope" });
  }

  /** Units in their order: by stack, layer and head. */
  function unitPlace({ stack, layer, head }) {
    return STACKS.indexOf(stack) * 1e6 + (layer || 0) * 1e3 + (head || 0);
  }

  /** Columns of tables: the name of a unit, and a number of the row. */
  function unitColumn(title) {
    return { title: say(title), value: (row) => unitPlace(row.unit), cell: (row) => unitName(row.unit) };
  }
  function numberColumn(title, value, text) {
    return { title: say(title), numeric: true, value, cell: (row) => text(value(row)) };
  }

  /** What methods mean and cannot say, folded away below the picture that they belong to. */
  function methodDetails(methods) {
    return methods.filter((method) => tOr(`method.${method}.what`, "")).map((method) => el(
      "details", { class: "method" },
      el("summary", {}, Clearhead.report.badge(method)),
      say(`method.${method}.what`, {}, "p"),
      el("p", {}, say("method.can", {}, "b"), " ", say(`method.${method}.can`)),
      el("p", {}, say("method.cannot", {}, "b"), " ", say(`method.${method}.cannot`)),
      el("p", {}, say("method.score", {}, "b"), " ", say(`method.${method}.calibrated`)),
      el("p", { class: "muted" }, say("method.cite"), " ", say(`method.${method}.cite`)),
    ));
  }

  Clearhead.parts = { STACKS, unitName, unitPlace, valueOf, living, scopeLine, unitColumn, numberColumn,
    methodDetails };
})();
