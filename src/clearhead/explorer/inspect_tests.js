"use strict";
// The tests view: permuted, uniform and adversarial weights by head, layer and stack, and whether gradients converged.
(() => {
  const { el, t, tOr, say, number, percent, tokenText, token, table, select, show } = Clearhead;
  const { strips, lines, key } = Clearhead.charts;
  const { unitName, unitPlace, valueOf, living, scopeLine, unitColumn, numberColumn, methodDetails } = Clearhead.parts;
  const MOST_JSD = Math.log(2);
  const SHAPES = { head: "circle", layer: "diamond", stack: "square" };

  const kind = (unit) => (unit.head ? "head" : unit.layer ? "layer" : "stack");
  function open(unit) {
    const layers = Clearhead.report.layersOf(unit.stack);
    select({ stack: unit.stack, layer: unit.layer || layers[layers.length - 1].layer, head: unit.head || 1 });
    show("map");
  }

  /** What was found, a row a unit; without a `scope` of the sample where there is one. */
  function unitsOf(method, names, scope = "any") {
    return Clearhead.report.findings(method, scope)
      .map((finding) => ({ unit: finding.unit, value: valueOf(finding, ...names), finding }))
      .filter((row) => row.value !== null)
      .sort((a, b) => unitPlace(a.unit) - unitPlace(b.unit));
  }

  /** A strip for each stack and each layer: all of its heads on one line, the whole layer with them. */
  function stripRows(rows, marks) {
    const found = new Map();
    for (const { unit, value } of rows) {
      const own = { stack: unit.stack, layer: unit.layer || null, head: null };
      const name = `${own.stack} ${own.layer}`;
      if (!found.has(name)) found.set(name, { unit: own, group: unit.stack, points: [] });
      found.get(name).points.push({ value, shape: SHAPES[kind(unit)], name: `${unitName(unit)}: ${number(value, 3)}`,
        pick: () => open(unit) });
    }
    return [...found.values()].sort((a, b) => unitPlace(a.unit) - unitPlace(b.unit)).map((row) => ({
      ...row, name: unitName(row.unit), lines: marks(row.unit),
    }));
  }

  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

  /** One head against a layer against a stack: what tests of single heads do not see. */
  function comparison(rows, found = null) {
    const of = (wanted) => rows.filter((row) => kind(row.unit) === wanted).map((row) => row.value);
    const [heads, layers, stacks] = ["head", "layer", "stack"].map(of);
    if (!heads.length || !layers.length || !stacks.length) return null;
    const [head, layer, stack] = [heads, layers, stacks].map((values) => number(mean(values), 2));
    const rising = mean(heads) < mean(layers) && mean(layers) <= mean(stacks);
    return say(found || (rising ? "tests.compare" : "tests.compare.plain"), { head, layer, stack }, "p");
  }

  function settingsLine(finding) {
    const told = () => Object.entries(finding.settings).map(([name, value]) =>
      `${tOr(`setting.${name}`, name)} ${number(value, 3)}`).join(" · ");
    if (!Object.keys(finding.settings).length) return null;
    return say("tests.settings", () => ({ settings: told() }), "p", { class: "note" });
  }

  /** A test, of the sample and of the sentence: pictures, tables, and what it can and cannot say. */
  function testPart(test) {
    const { method, names } = test;
    const box = el("div", { class: "part" }, el("h3", {}, say(`method.${method}`)));
    const [sample, sentence] = ["sample", "sentence"].map((scope) => unitsOf(method, names, scope));
    if (sample.length || sentence.length) box.append(say(`method.${method}.what`, {}, "p"));
    else box.append(say("not_tested.long", {}, "p", { class: "untested" }));
    const caution = () => say("caution.sentence", {}, "p", { class: "caution" });
    if (sample.length) box.append(...pictured(test, sample));
    if (sample.length && sentence.length) {
      const folded = el("details", {}, el("summary", {}, say("scope.sentence")), caution(), ...pictured(test, sentence));
      box.append(folded);
    } else if (sentence.length) box.append(sampled() ? caution() : "", ...pictured(test, sentence));
    box.append(...methodDetails([method]));
    return box;
  }

  /** The numbers of one scope, all on one scale. */
  function pictured({ method, axis, most, columns, marks = () => [], more = () => [], compared = null }, rows) {
    const largest = rows.reduce((found, row) => (row.value > found.value ? row : found));
    const count = (wanted) => rows.filter((row) => kind(row.unit) === wanted).length;
    return [
      scopeLine(rows[0].finding), comparison(rows, compared), ...more(rows),
      strips({
        rows: () => stripRows(rows, marks), most, x: () => t(axis),
        summary: () => t("tests.plot.summary", {
          heads: count("head"), layers: count("layer"), stacks: count("stack"),
          unit: unitName(largest.unit), most: number(largest.value, 3),
        }),
        table: () => table({
          caption: say(`method.${method}`), rows,
          columns: [
            unitColumn("column.unit"),
            { title: say("tests.kind"), value: (row) => t(`tests.kind.${kind(row.unit)}`) },
            numberColumn(axis, (row) => row.value, (value) => number(value, 4)),
            ...columns(),
          ],
        }),
      }),
      say("tests.plot.legend", {}, "p", { class: "note" }),
      marks === seedMarks && seeds().length ? say("tests.plot.seed", {}, "p", { class: "note" }) : null,
      key([...new Set(rows.map((row) => row.unit.stack))]),
      settingsLine(rows[0].finding),
    ].filter(Boolean);
  }

  const column = (word, name, text = (value) => number(value, 4)) =>
    numberColumn(word, (row) => valueOf(row.finding, name), text);

  // ---- divergence between seeds, the measure of what is chance
  const SEED = ["matched"]; // of the best one-to-one matching of heads
  const seeds = () => unitsOf("seed-null", SEED);
  function seedMarks(unit) {
    return seeds().filter((row) => row.unit.stack === unit.stack && (row.unit.layer || null) === unit.layer)
      .map((row) => row.value);
  }

  function adversarialWords(rows) {
    const { epsilon } = rows[0].finding.settings;
    return [
      say("tests.adversarial.read", { epsilon: number(epsilon === undefined ? null : epsilon, 2) }, "p"),
      seeds().length ? null : say("tests.adversarial.no_seeds", {}, "p", { class: "note" }),
    ];
  }

  function seedPart() {
    const box = el("div", { class: "part" }, el("h3", {}, say("method.seed-null")));
    const rows = seeds();
    if (!rows.length) box.append(say("not_tested.long", {}, "p", { class: "untested" }));
    else {
      box.append(say("method.seed-null.what", {}, "p"), scopeLine(rows[0].finding), living(table({
        caption: say("method.seed-null"), rows,
        columns: [
          unitColumn("column.unit"),
          numberColumn("tests.seed", (row) => row.value, (value) => number(value, 4)),
        ],
      })));
    }
    box.append(...methodDetails(["seed-null"]));
    return box;
  }

  // ---- did integrated gradients converge
  function convergence() {
    const box = el("div", { class: "part" }, say("tests.ig", {}, "h3"));
    const report = Clearhead.report;
    const scores = report.scores.find((each) => each.method === "integrated-gradients"
      && each.series.completeness_error);
    if (!scores) {
      box.append(say("not_tested.long", {}, "p", { class: "untested" }), ...methodDetails(["integrated-gradients"]));
      return box;
    }
    const { series, settings } = scores;
    const tolerance = settings.tolerance === undefined ? 0.01 : settings.tolerance;
    const rows = report.tokens.gold.map((gold, at) => {
      const error = series.completeness_error[at];
      const good = series.converged ? series.converged[at] === 1 : error !== null && error < tolerance;
      const of = (name) => (series[name] ? series[name][at] : null);
      return { at, gold, error, good, steps: of("steps"), difference: of("difference") };
    });
    const share = (value) => (value === null ? "–" : `${number(100 * value, 2)} %`);
    const worst = rows.reduce((most, row) => ((row.error ?? 0) > (most.error ?? 0) ? row : most));
    const told = () => ({ good: rows.filter((row) => row.good).length, all: rows.length, worst: share(worst.error) });
    box.append(
      say("tests.ig.lead", { tolerance: share(tolerance) }, "p"),
      say("scope.sentence", {}, "p", { class: "note scope" }),
      say("tests.ig.count", told, "p"),
      lines({
        x: () => t("column.prediction"), y: () => `${t("tests.ig.error")}, %`,
        series: () => [{
          group: "all", name: t("tests.ig.error"), x: rows.map((row) => row.at + 1),
          y: rows.map((row) => (row.error === null ? null : 100 * row.error)),
        }],
        rule: () => 100 * tolerance,
        summary: () => t("tests.ig.count", told()),
        table: () => table({
          caption: say("tests.ig"), rows,
          columns: [
            {
              title: say("column.prediction"), value: (row) => row.at,
              cell: (row) => el("span", {}, `${row.at + 1} `, token(row.gold)),
            },
            numberColumn("tests.ig.steps", (row) => row.steps, (value) => number(value, 0)),
            numberColumn("tests.ig.error", (row) => row.error, share),
            numberColumn("tests.ig.difference", (row) => row.difference, (value) => number(value, 3)),
            {
              title: say("tests.ig.state"), value: (row) => Number(row.good),
              cell: (row) => say(row.good ? "tests.ig.yes" : "tests.ig.no", {}, "span",
                { class: row.good ? "chip" : "chip warn" }),
            },
          ],
        }),
      }),
    );
    box.append(...methodDetails(["integrated-gradients"]));
    return box;
  }

  // ---- agreement of heads with methods that do not read weights
  function agreement() {
    const box = el("div", { class: "part" }, el("h3", {}, say("method.agreement")));
    const findings = Clearhead.report.findings("agreement");
    if (!findings.length) {
      box.append(say("not_tested.long", {}, "p", { class: "untested" }), ...methodDetails(["agreement"]));
      return box;
    }
    const methods = [...new Set(findings.flatMap((finding) => Object.keys(finding.values)))]
      .map((name) => name.match(/^(.+)_tau$/)).filter(Boolean).map((match) => match[1]);
    const rows = [...findings].sort((a, b) => unitPlace(a.unit) - unitPlace(b.unit));
    box.append(say("method.agreement.what", {}, "p"), scopeLine(findings[0]), living(table({
      caption: say("tests.agreement.table"), rows,
      columns: [
        unitColumn("column.head"),
        ...methods.map((method) => ({
          title: Clearhead.methodName(method), numeric: true,
          value: (row) => row.values[`${method}_tau`] ?? null,
          cell: (row) => number(row.values[`${method}_tau`] ?? null, 2),
        })),
      ],
    })), ...methodDetails(["agreement"]));
    return box;
  }

  const TESTS = [
    {
      method: "permutation", names: ["median_tvd"], axis: "tests.plot.tvd", most: () => 1,
      columns: () => [column("tests.largest", "max_tvd")],
    },
    {
      method: "uniform", names: ["mean_tvd"], axis: "tests.plot.uniform", most: () => 1,
      columns: () => [column("tests.largest", "max_tvd")],
    },
    {
      method: "adversarial", names: ["max_jsd"], axis: "tests.plot.jsd", most: () => MOST_JSD,
      marks: seedMarks, more: adversarialWords, compared: "tests.compare.adversarial",
      columns: () => [column("tests.share", "far", (value) => percent(value, 0)), column("tests.reached", "tvd")],
    },
  ];

  const tested = (scope) => TESTS.some(({ method }) => Clearhead.report.findings(method, scope).length);
  /** Some test shows numbers of a sample: the caution about one sentence then stands where its numbers are, not above. */
  const sampled = () => tested("sample");

  function mount(section) {
    section.append(
      tested("sentence") && !sampled() ? say("caution.sentence", {}, "p", { class: "caution" }) : "",
      say("tests.scale", {}, "p", { class: "note" }),
      ...TESTS.map(testPart), seedPart(), convergence(), agreement(),
    );
  }

  Clearhead.view({ id: "tests", title: "tests.title", mount });
})();
