"use strict";
// What each method says of the tokens of one prediction: rows of numbers, their largest, and how alike two rows are.
(() => {
  const { t, tOr, number } = Clearhead;
  const ORDER = ["attention", "value-norms", "rollout", "gradient-input", "gradient-norm", "integrated-gradients",
    "occlusion"];
  const STACKS = { source: "cross", prefix: "decoder" };

  /** Ranks from 1, the mean rank for equal values. */
  function ranks(values) {
    const order = [...values.keys()].sort((a, b) => values[a] - values[b]);
    const found = new Array(values.length);
    for (let first = 0; first < order.length;) {
      let last = first;
      while (last + 1 < order.length && values[order[last + 1]] === values[order[first]]) last += 1;
      for (let at = first; at <= last; at += 1) found[order[at]] = (first + last) / 2 + 1;
      first = last + 1;
    }
    return found;
  }

  /** Spearman's ρ: the correlation of the ranks; null for fewer than three values, or if one side's are all equal. */
  function rankCorrelation(one, other) {
    if (one.length < 3) return null;
    const [a, b] = [ranks(one), ranks(other)];
    const mean = (one.length + 1) / 2;
    let [both, first, second] = [0, 0, 0];
    a.forEach((rank, at) => {
      both += (rank - mean) * (b[at] - mean);
      first += (rank - mean) ** 2;
      second += (b[at] - mean) ** 2;
    });
    return first && second ? both / Math.sqrt(first * second) : null;
  }

  /** What one method says over one side: { method, name(), values(t), error, signed, scores }. */
  function methodRow(scores, side) {
    const matrix = scores[side];
    const unit = scores.unit ? () => Clearhead.report.unitName(scores.unit) : null;
    return {
      method: scores.method, unit, signed: scores.signed, scores,
      values: (t) => matrix.row(t),
      error: (t, s) => matrix.at(t, s).error || 0,
    };
  }

  /** A row of attention read off the maps: the mean of a layer, or one head. */
  function mapRow(layer, head) {
    const map = head ? Clearhead.report.map(layer.stack, layer.layer, head)
      : Clearhead.report.meanMap(layer.stack, layer.layer);
    const name = () => Clearhead.report.unitName({ stack: layer.stack, layer: layer.layer, head: head || null });
    const words = head ? "tokens.chosen" : layer.heads > 1 ? "tokens.mean" : "tokens.mean.one";
    return {
      method: "attention", signed: false, scores: null,
      unit: () => t(words, { head: name(), layer: name(), heads: layer.heads }),
      values: (t) => map.row(t),
      error: (t, s) => map.at(t, s).error || 0,
    };
  }

  /** Every row of a side, attention first; where no method gave attention, its layers are read off the maps. */
  function rowsOf(side, chosen) {
    const report = Clearhead.report;
    const given = report.scores.filter((scores) => scores[side]);
    const place = (scores) => (ORDER.indexOf(scores.method) + 1
      || ORDER.length + 1) * 1000 + ((scores.unit && scores.unit.layer) || 0);
    const rows = [...given].sort((a, b) => place(a) - place(b)).map((scores) => methodRow(scores, side));
    const layers = report.layersOf(STACKS[side]);
    if (!given.some((scores) => scores.method === "attention")) rows.unshift(...layers.map((layer) => mapRow(layer)));
    if (chosen.stack === STACKS[side] && chosen.head) {
      const layer = layers.find((each) => each.layer === chosen.layer);
      if (layer && layer.heads > 1) rows.unshift(mapRow(layer, chosen.head));
    }
    return rows;
  }

  const methodName = (method) => tOr(`method.${method}`, method);
  const rowName = (row) => (row.unit ? `${methodName(row.method)} · ${row.unit()}` : methodName(row.method));

  /** What a row says at prediction `t` of the `count` tokens that were read: its values, the largest, where that is. */
  function reading(row, t, count) {
    const values = [...row.values(t)].slice(0, count);
    const most = Math.max(0, ...values.map(Math.abs));
    return { row, values, most, top: most > 0 ? values.findIndex((value) => Math.abs(value) === most) : -1 };
  }

  /** Of integrated gradients: how exact the sum is, and whether the row may be read. */
  function doubt(row, t) {
    const series = row.scores && row.scores.series;
    if (!series || !series.completeness_error) return null;
    const error = series.completeness_error[t];
    const steps = series.steps ? series.steps[t] : null;
    const tolerance = row.scores.settings.tolerance;
    const good = series.converged ? series.converged[t] === 1 : error !== null && error < tolerance;
    return { good, values: { error: percentage(error), steps: number(steps, 0) } };
  }
  const percentage = (share) => (share === null || share === undefined ? "–" : share < 0.0001
    ? `< ${number(0.01, 2)} %` : `${number(100 * share, 2)} %`);

  Clearhead.rankCorrelation = rankCorrelation;
  Clearhead.rows = { rowsOf, rowName, methodName, reading, doubt };
})();
