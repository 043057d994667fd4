"use strict";
// The heads view: roles, what closing a head costs, pruning and temperature curves, probes.
(() => {
  const { el, t, tOr, say, named, onLanguage, number, percent, signed, table, select, show } = Clearhead;
  const { scatter, lines, key } = Clearhead.charts;
  const { STACKS, unitName, unitPlace, valueOf, living, scopeLine, unitColumn, numberColumn,
    methodDetails } = Clearhead.parts;

  /** Everything that is known of each head, a row a head. */
  function everyHead() {
    const report = Clearhead.report;
    const found = [];
    for (const layer of report.layers) {
      for (let head = 1; head <= layer.heads; head += 1) {
        const unit = { stack: layer.stack, layer: layer.layer, head };
        const about = (method) => report.finding(method, unit);
        const role = about("role");
        const name = role && role.words.role;
        const pattern = name === "special-token" ? "sink" : name; // one candidate under two names: see head_roles
        found.push({
          unit, role: name || null, words: role ? role.words : {},
          score: valueOf(role, `${pattern}_score`),
          baseline: valueOf(role, `${pattern}_baseline`),
          threshold: valueOf(role, `${pattern}_threshold`),
          entropy: valueOf(about("statistics"), "entropy_share"),
          importance: valueOf(about("importance"), "importance"),
          zero: valueOf(about("ablation-zero"), "delta_nll"),
          mean: valueOf(about("ablation-mean"), "delta_nll"),
          permutation: valueOf(about("permutation"), "median_tvd"),
        });
      }
    }
    return found;
  }
  const roleName = (role) => tOr(`role.${role}`, role);
  function offsetOf({ role, words }) { return role === "position" && words.offset ? ` ${words.offset}` : ""; }
  function open(unit) {
    select({ stack: unit.stack, layer: unit.layer, head: unit.head });
    show("map");
  }

  function untested() { return say("not_tested", {}, "span", { class: "untested" }); }
  /** A number that perhaps was not tested. */
  function column(title, name, text) {
    return numberColumn(title, (row) => row[name], (value) => (value === null ? untested() : text(value)));
  }

  /** A labelled choice; `values` as they are, `word` what each is called. */
  function choice(label, values, word, change) {
    const list = el("select", {}, ...values.map((value) => el("option", { value })));
    const words = () => [...list.options].forEach((option) => { option.textContent = word(option.value); });
    words();
    onLanguage(words);
    list.addEventListener("change", () => change(list.value));
    return el("label", {}, say(label), " ", list);
  }

  function roles(heads) {
    const box = el("div", { class: "part" });
    const wanted = { stack: "", role: "" };
    let mixed = false; // some numbers are of the sentence, though there is a sample
    function noted(method, made) {
      const [first] = Clearhead.report.findings(method);
      if (!Clearhead.report.sample || !first || first.scope === "sample") return made;
      mixed = true;
      return { ...made, title: el("span", {}, made.title, " ¹") };
    }
    const columns = [
      {
        title: say("column.head"), value: (row) => unitPlace(row.unit), numeric: false,
        cell: (row) => {
          const link = el("button", { type: "button", class: `link unit ${row.unit.stack}` }, unitName(row.unit));
          link.addEventListener("click", () => open(row.unit));
          return link;
        },
      },
      {
        title: say("heads.filter.role"), value: (row) => (row.role ? roleName(row.role) : null), numeric: false,
        cell: (row) => (row.role ? el("span", { class: "chip" }, roleName(row.role) + offsetOf(row)) : untested()),
      },
      column("heads.score", "score", (value) => number(value, 2)),
      column("heads.baseline", "baseline", (value) => number(value, 2)),
      column("heads.threshold", "threshold", (value) => number(value, 2)),
      noted("statistics", column("heads.entropy", "entropy", (value) => number(value, 2))),
      noted("importance", column("heads.importance", "importance", (value) => number(value, 4))),
      noted("ablation-zero", column("heads.zero", "zero", (value) => signed(value, 4))),
      noted("ablation-mean", column("heads.mean", "mean", (value) => signed(value, 4))),
      noted("permutation", column("heads.permutation", "permutation", (value) => number(value, 3))),
    ];
    for (const each of columns.slice(2, 5)) { // a role without a score of its own (mixed) has none, tested or not
      const text = each.cell;
      each.cell = (row) => (row.role && each.value(row) === null ? "–" : text(row));
    }
    const shown = () => heads.filter((row) => (!wanted.stack || row.unit.stack === wanted.stack)
      && (!wanted.role || row.role === wanted.role));
    const list = table({ caption: say("heads.roles"), columns, rows: heads, empty: say("heads.none") });
    const count = say("heads.shown", () => ({ count: shown().length, all: heads.length }), "p",
      { class: "note", "aria-live": "polite" });
    function refresh() {
      list.update(shown());
      count.textContent = t("heads.shown", { count: shown().length, all: heads.length });
    }
    const any = (name) => (value) => (value ? tOr(`${name}.${value}`, value) : t("heads.filter.any"));
    const present = [...new Set(heads.map((row) => row.role).filter(Boolean))];
    box.append(
      say("heads.roles", {}, "h3"),
      scopeLine(Clearhead.report.findings("role")[0]) || untested(),
      el(
        "div", { class: "controls" },
        choice("heads.filter.stack", ["", ...Clearhead.report.stacks], any("stack"),
          (value) => { wanted.stack = value; refresh(); }),
        choice("heads.filter.role", ["", ...present], any("role"), (value) => { wanted.role = value; refresh(); }),
      ),
      count, list, mixed ? say("heads.mixed", {}, "p", { class: "note" }) : "",
      say("heads.units", {}, "p", { class: "note" }), ...methodDetails(["role", "statistics"]),
    );
    onLanguage(() => list.update(shown()));
    return box;
  }

  function importance(heads) {
    const box = el("div", { class: "part" }, say("heads.scatter", {}, "h3"));
    const fills = ["zero", "mean"].filter((fill) => heads.some((row) => row.importance !== null && row[fill] !== null));
    if (!fills.length) {
      box.append(say("not_tested.long", {}, "p", { class: "untested" }),
        ...methodDetails(["importance", "ablation-zero", "ablation-mean"]));
      return box;
    }
    const picture = el("div");
    const rows = (fill) => heads.filter((row) => row.importance !== null && row[fill] !== null);
    function draw(fill) {
      const used = rows(fill);
      const worst = used.reduce((most, row) => (row[fill] > most[fill] ? row : most));
      const rho = Clearhead.rankCorrelation(used.map((row) => row.importance), used.map((row) => row[fill]));
      const summary = () => t(rho === null ? "heads.scatter.few" : "heads.scatter.summary", {
        count: used.length, worst: unitName(worst.unit), most: number(worst[fill], 4), rho: number(rho, 2),
      });
      const said = el("p", {}, summary());
      onLanguage(() => { said.textContent = summary(); });
      picture.replaceChildren(
        said,
        scatter({
          x: () => t("heads.scatter.x"), y: () => t("heads.scatter.y"), summary,
          points: () => used.map((row) => ({
            x: row.importance, y: row[fill], group: row.unit.stack,
            label: `${row.unit.layer}.${row.unit.head}`, pick: () => open(row.unit),
            name: [unitName(row.unit), `${t("heads.importance")} ${number(row.importance, 4)}`,
              `${t(`heads.${fill}`)} ${signed(row[fill], 4)}`].join(" · "),
          })),
          table: () => table({
            caption: say("heads.scatter"), rows: used,
            columns: [
              unitColumn("column.head"),
              numberColumn("heads.importance", (row) => row.importance, (value) => number(value, 5)),
              numberColumn(`heads.${fill}`, (row) => row[fill], (value) => signed(value, 5)),
            ],
          }),
        }),
        key(Clearhead.report.stacks),
      );
    }
    box.append(scopeLine(Clearhead.report.findings(`ablation-${fills[0]}`)[0]));
    if (Clearhead.report.findings("importance")[0].scope === "sentence") {
      box.append(say("caution.sentence", {}, "p", { class: "caution" }));
    }
    const fillWord = (fill) => t(`heads.scatter.${fill}`);
    if (fills.length > 1) {
      box.append(el("div", { class: "controls" }, choice("heads.scatter.fill", fills, fillWord, draw)));
    }
    box.append(picture, say("heads.scatter.caution", {}, "p", { class: "note" }),
      ...methodDetails(["importance", "ablation-zero", "ablation-mean"]));
    draw(fills[0]);
    return box;
  }

  // ---- curves
  const groupOf = (curve) => [...STACKS, "all"].find((stack) => curve.name.split(/[^a-z]+/).includes(stack)) || "all";
  const curveName = (curve) => tOr(`stack.${groupOf(curve)}`, curve.name);

  /** The curves of one method, of the sample where there is one; one picture for each series that has numbers. */
  function curvesOf(method) {
    const all = Clearhead.report.curves.filter((curve) => curve.method === method);
    const sample = all.filter((curve) => curve.scope === "sample");
    return sample.length ? sample : all;
  }

  function curvePart({ title, method, x, summary, titles, log, from = {}, at = (curve) => curve.x, note = () => null,
    caution = () => null }) {
    const box = el("div", { class: "part" }, say(title, {}, "h3"));
    const curves = curvesOf(method);
    if (!curves.length) {
      box.append(say("not_tested.long", {}, "p", { class: "untested" }), ...methodDetails([method]));
      return box;
    }
    box.append(caution(curves) || "", scopeLine(curves[0]));
    const pictures = el("div", { class: "pair" });
    for (const [name, word] of Object.entries(titles)) {
      const having = curves.filter((curve) => curve.series[name] && curve.series[name].some((value) => value !== null));
      const options = { curves: having, name, word, x, summary, log, at, from: from[name] };
      if (having.length) pictures.append(curvePicture(options));
    }
    box.append(pictures, key([...new Set(curves.map(groupOf))]), note(curves) || "", ...methodDetails([method]));
    return box;
  }

  function curvePicture({ curves, name, word, x, summary, log, from, at }) {
    const relative = (curve, value) => (value === null || !from ? value : value - curve.series[name][from(curve)]);
    const series = () => curves.map((curve) => ({
      group: groupOf(curve), name: curveName(curve), x: at(curve),
      y: curve.series[name].map((value) => relative(curve, value)),
    }));
    const ends = () => series().map((each) => t("heads.curve.end", {
      name: each.name, first: number(each.y[0], 3), last: number(each.y[each.y.length - 1], 3),
    }));
    const places = [...new Set(curves.flatMap(at))].sort((a, b) => a - b);
    return lines({
      series, log, x: () => t(x), y: () => t(word), at: log ? () => places : null,
      summary: () => `${t(word)}. ${t(summary, { lines: ends().join("; ") })}`,
      table: () => table({
        caption: say(word), rows: places,
        columns: [
          { title: say(x), value: (value) => value, cell: (value) => number(value, 2), numeric: true, sort: false },
          ...series().map((each) => ({
            title: el("span", {}, each.name), numeric: true, sort: false,
            value: (value) => each.y[each.x.indexOf(value)] ?? null,
            cell: (value) => number(each.y[each.x.indexOf(value)] ?? null, 4),
          })),
        ],
      }),
    });
  }

  function probes() {
    const box = el("div", { class: "part" }, say("heads.probes", {}, "h3"));
    const all = Clearhead.report.probes;
    if (!all.length) {
      box.append(say("not_tested.long", {}, "p", { class: "untested" }), ...methodDetails(["probes"]));
      return box;
    }
    const share = (name) => column(`probe.${name}`, name, (value) => percent(value, 1));
    const plain = (name, text) => ({ title: say(`probe.${name}`), value: text, cell: text, numeric: false });
    const examples = Math.min(...all.map((row) => row.examples));
    box.append(
      examples < FEW_EXAMPLES ? say("heads.probes.few", { examples }, "p", { class: "caution" }) : "",
      scopeLine(all[0]), living(table({
      caption: say("heads.probes"), rows: all,
      columns: [
        plain("label", (row) => tOr(`probe.label.${row.label}`, row.label)),
        plain("place", (row) => `${t(`stack.${row.place}`)} ${row.layer}`),
        plain("kind", (row) => t(`probe.kind.${row.kind}`)),
        ...["accuracy", "control", "selectivity", "majority", "untrained"].map(share),
        numberColumn("probe.classes", (row) => row.classes, (value) => number(value, 0)),
        numberColumn("probe.examples", (row) => row.examples, (value) => number(value, 0)),
      ],
    })), ...methodDetails(["probes"]));
    return box;
  }

  // Below these a difference of BLEU or of accuracy is mostly chance.
  const FEW_TRANSLATIONS = 200;
  const FEW_EXAMPLES = 1000;

  /** How many translations stand behind a BLEU, often fewer than behind a loss; null where there is no BLEU. */
  function translations(curves) {
    if (!curves.some((curve) => curve.series.score && curve.series.score.some((value) => value !== null))) return null;
    const { sample } = Clearhead.report;
    return Number((sample && sample.settings.translated) || curves[0].pairs);
  }
  function translated(curves) {
    const { sample } = Clearhead.report;
    if (!sample || !sample.settings.translated || translations(curves) === null) return null;
    return say("heads.pruning.translated", { translated: sample.settings.translated }, "p", { class: "note" });
  }
  function fewTranslated(curves) {
    const count = translations(curves);
    if (count === null || count >= FEW_TRANSLATIONS) return null;
    return say("heads.pruning.few", { translated: count }, "p", { class: "caution" });
  }

  const PRUNING = {
    title: "heads.pruning", method: "pruning", x: "heads.pruning.x", summary: "heads.pruning.summary",
    titles: { delta_nll: "heads.pruning.nll", score: "heads.pruning.score" },
    at: (curve) => (curve.series.share_left ? curve.series.share_left.map((left) => 1 - left) : curve.x),
    note: translated, caution: fewTranslated,
  };
  const TEMPERATURE = {
    title: "heads.temperature", method: "temperature", x: "heads.temperature.x", summary: "heads.temperature.summary",
    titles: { nll: "heads.pruning.nll", entropy_share: "heads.entropy" }, log: true,
    from: { nll: (curve) => Math.max(0, curve.x.indexOf(1)) }, // less the loss as it is, at temperature 1
  };

  function mount(section) {
    const heads = everyHead();
    if (heads.length) section.append(roles(heads), importance(heads), curvePart(PRUNING), curvePart(TEMPERATURE));
    else section.append(say("heads.none", {}, "p", { class: "untested" }));
    section.append(probes());
  }

  Clearhead.view({ id: "heads", title: "heads.title", mount });
})();
