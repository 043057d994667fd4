"use strict";
// From the file's blocks to numbers: maps, scores and findings, each with how far off a printed number may be.
(() => {
  const { t, tOr, say, el, named, language, number, percent, tokenText, isolated } = Clearhead;
  const STACKS = ["encoder", "decoder", "cross"];
  const FAINT = 0.2; // a rank correlation nearer to 0 tells nothing
  const KINDS = { u8: Uint8Array, u16: Uint16Array, f32: Float32Array };
  const block = (name) => document.getElementById(name).textContent;

  async function unzip(name) {
    const coded = atob(block(name));
    const bytes = new Uint8Array(coded.length);
    for (let at = 0; at < coded.length; at += 1) bytes[at] = coded.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  }

  class Grid { // a map or a matrix of scores: rows × columns of numbers, and how exact they are
    constructor(rows, columns, values, { visible = null, error = null } = {}) {
      Object.assign(this, { rows, columns, weights: values, values });
      this.visible = visible || (() => true);
      this.off = error || (() => 0);
    }
    at(row, column) {
      return { value: this.values[row * this.columns + column], error: this.off(row, column), visible: this.visible(row, column) };
    }
    row(row) { return this.values.subarray(row * this.columns, (row + 1) * this.columns); }
  }

  class Report {
    constructor(head, told, buffer) {
      if (head.format !== "clearhead inspect 1") throw new Error(`not a report that this page reads: ${head.format}`);
      this.meta = head.meta;
      this.tokens = head.tokens;
      const [source, target] = head.meta.languages;
      for (const each of head.tokens.source) each.lang = source;
      for (const each of [...head.tokens.prefix, ...head.tokens.gold]) each.lang = target;
      this.logProbs = Float32Array.from(head.logProbs, (each) => (each === null ? NaN : each));
      this.layers = head.layers;
      this.stacks = STACKS.filter((stack) => this.layers.some((each) => each.stack === stack));
      this.evidence = told.sentence;
      this.sample = told.sample;
      this.calibration = told.calibration;
      this.measures = told.measures;
      this.buffer = buffer;
      this.maps = new Map();
      const records = [this.evidence, this.sample].filter(Boolean);
      const marked = (record, each) => ({ ...each, scope: record.scope, pairs: record.pairs, tokens: record.tokens });
      for (const record of records) record.findings = record.findings.map((each) => marked(record, each));
      this.scores = ((this.evidence && this.evidence.scores) || []).map((each) => this.tokenScores(each));
      this.lens = (this.evidence && this.evidence.lens) || [];
      this.curves = records.flatMap((record) => record.curves.map((each) => marked(record, each)));
      this.probes = records.flatMap((record) => record.probes.map((each) => marked(record, each)));
      this.found = new Map(records.flatMap((record) => record.findings.map(
        (each) => [this.name(record.scope, each.method, each.unit), each])));
    }
    name(scope, method, unit) { return [scope, method, unit.stack, unit.layer ?? "", unit.head ?? ""].join("|"); }
    array(reference) {
      const size = reference.shape.reduce((product, each) => product * each, 1);
      return new KINDS[reference.type](this.buffer, reference.at, size);
    }
    layersOf(stack) { return this.layers.filter((each) => each.stack === stack); }
    layer(stack, layer) { return this.layers.find((each) => each.stack === stack && each.layer === layer); }
    queries(stack) { return stack === "encoder" ? this.tokens.source : this.tokens.prefix; }
    keys(stack) { return stack === "decoder" ? this.tokens.prefix : this.tokens.source; }
    rowLabel(stack, row) {
      const query = isolated(tokenText(this.queries(stack)[row]));
      return stack === "encoder" ? query : `${query} → ${isolated(tokenText(this.tokens.gold[row]))}`;
    }
    visibility(layer) {
      if (layer.visible === "full") return () => true;
      if (layer.visible === "causal") return (row, column) => column <= row;
      const bits = this.array(layer.visible);
      return (row, column) => {
        const place = row * layer.columns + column;
        return Boolean((bits[place >> 3] >> (place & 7)) & 1);
      };
    }
    map(stack, layer, head) {
      const key = `${stack}|${layer}|${head}`;
      if (!this.maps.has(key)) this.maps.set(key, this.decode(this.layer(stack, layer), head));
      return this.maps.get(key);
    }
    decode(layer, head) {
      const size = layer.rows * layer.columns;
      const coded = this.array(layer.weights).subarray((head - 1) * size, head * size);
      const shades = new Float32Array(layer.steps + 1);
      for (let step = 0; step <= layer.steps; step += 1) shades[step] = layer.scale * (step / layer.steps) ** 2;
      const values = new Float32Array(size);
      for (let at = 0; at < size; at += 1) values[at] = shades[coded[at]];
      const half = this.refined(values, layer, 0.5 / layer.steps, head - 1, () => layer.scale);
      const visible = this.visibility(layer);
      const error = (row, column) => {
        const at = row * layer.columns + column;
        return visible(row, column) ? layer.scale * (2 * Math.sqrt(values[at] / layer.scale) * half(at) + half(at) ** 2) : 0;
      };
      return new Grid(layer.rows, layer.columns, values, { visible, error });
    }
    // Puts the largest of each row, which are kept in 16 bits, into `values`; gives half a step of √w at every place.
    refined(numbers, { best, columns, rows }, half, head, peak) {
      if (!best) return () => half;
      const fine = new Uint8Array(numbers.length);
      const [places, values] = [this.array(best.places), this.array(best.values)];
      const kept = best.values.shape.at(-1);
      for (let row = 0; row < rows; row += 1) {
        for (let rank = 0; rank < kept; rank += 1) {
          const from = (head * rows + row) * kept + rank;
          const to = row * columns + places[from];
          const root = (values[from] - 32767) / 32767;
          numbers[to] = Math.sign(root) * root * root * peak(row);
          fine[to] = 1;
        }
      }
      return (at) => (fine[at] ? 0.5 / 32767 : half);
    }
    meanMap(stack, number_) {
      const key = `${stack}|${number_}|mean`;
      if (!this.maps.has(key)) {
        const layer = this.layer(stack, number_);
        const each = [...Array(layer.heads).keys()].map((head) => this.map(stack, number_, head + 1));
        const values = new Float32Array(layer.rows * layer.columns);
        for (const { weights } of each) {
          for (let at = 0; at < values.length; at += 1) values[at] += weights[at] / layer.heads;
        }
        const error = (row, column) => each.reduce((sum, one) => sum + one.off(row, column), 0) / layer.heads;
        this.maps.set(key, new Grid(layer.rows, layer.columns, values, { visible: each[0].visible, error }));
      }
      return this.maps.get(key);
    }
    tokenScores(scores) { return { ...scores, source: this.matrix(scores.source), prefix: this.matrix(scores.prefix) }; }
    matrix(coded) {
      if (!coded) return null;
      if (coded.coding === "mean") {
        const mean = this.meanMap(coded.stack, coded.layer);
        return Object.assign(new Grid(mean.rows, mean.columns, mean.values, { error: mean.off }), { error: 1 / this.layer(coded.stack, coded.layer).steps });
      }
      const [rows, columns] = coded.values.shape;
      if (coded.coding === "f32") return Object.assign(new Grid(rows, columns, this.array(coded.values)), { error: 0 });
      const [steps, peak] = [this.array(coded.values), this.array(coded.peak)];
      const values = new Float32Array(rows * columns);
      for (let at = 0; at < values.length; at += 1) {
        const root = (steps[at] - 127) / 127;
        values[at] = Math.sign(root) * root * root * peak[Math.floor(at / columns)];
      }
      const half = this.refined(values, { best: coded.best, columns, rows }, 0.5 / 127, 0, (row) => peak[row]);
      const off = (row, column) => {
        const at = row * columns + column;
        return peak[row] ? peak[row] * (2 * Math.sqrt(Math.abs(values[at]) / peak[row]) * half(at) + half(at) ** 2) : 0;
      };
      const largest = peak.reduce((most, each) => Math.max(most, each), 0);
      return Object.assign(new Grid(rows, columns, values, { error: off }), { error: largest / 127 });
    }
    finding(method, unit, scope = "any") {
      const scopes = scope === "any" ? ["sample", "sentence"] : [scope];
      for (const each of scopes) {
        const found = this.found.get(this.name(each, method, unit));
        if (found) return found;
      }
      return null;
    }
    findings(method, scope = "any") {
      const of = (record) => ((record && record.findings) || []).filter((each) => each.method === method);
      if (scope === "sentence") return of(this.evidence);
      const sample = of(this.sample);
      return scope === "sample" || sample.length ? sample : of(this.evidence);
    }
    calibrationOf(method) { return (this.calibration && this.calibration[method]) || null; }
    unitName(unit) {
      const stack = t(`stack.${unit.stack}`);
      if (unit.layer === null || unit.layer === undefined) return stack;
      return unit.head ? `${stack} ${unit.layer}.${unit.head}` : `${stack} ${unit.layer}`;
    }
    badge(method) { return el("span", { class: "badge" }, this.title(method), " ", this.calibrated(method)); }
    title(method) {
      const name = el("b", null, methodName(method));
      return known(`method.${method}.what`) ? named(name, `method.${method}.what`, null, "title") : name;
    }
    // How the method did where the answer is known, of what that is the score, and where it misled.
    calibrated(method) {
      const scores = this.calibrationOf(method);
      const tried = Object.entries(scores || {}).filter(([, score]) => score !== null);
      if (!tried.length) {
        return say(scores && !Object.keys(scores).length ? "shell.descriptive" : "shell.uncalibrated", null, "small");
      }
      const measure = this.measures[method];
      const key = measure ? `shell.calibrated.${measure}` : "shell.calibrated";
      const written = measure && measure !== "rank-correlation" ? (score) => percent(score).replace(" ", "\u00a0") : (score) => number(score, 2);
      const task = (name) => tOr(`task.${name}`, name);
      const told = say(key, () => ({ scores: tried.map(([name, score]) => `${task(name)} ${written(score)}`).join(language() === "zh" ? "、" : ", ") }), "small");
      if (known(`method.${method}.calibrated`)) named(told, `method.${method}.calibrated`, null, "title");
      const faint = measure === "rank-correlation" ? FAINT : 0; // a share has no other side
      const warnings = [["shell.astray", (score) => score < -faint], ["shell.nothing", (score) => Math.abs(score) <= faint]]
        .map(([words, wrong]) => [words, tried.filter(([, score]) => wrong(score)).map(([name]) => name)])
        .filter(([, tasks]) => tasks.length)
        .map(([words, tasks]) => [" ", say(words, () => ({ tasks: listed(tasks.map(task)) }), "small", { class: "warn" })]);
      return warnings.length ? el("span", { class: "scores" }, told, ...warnings.flat()) : told;
    }
  }
  const listed = (names) => new Intl.ListFormat(language()).format(names);
  const known = (key) => tOr(key, null) !== null;
  function methodName(method) {
    return known(`method.${method}`) ? say(`method.${method}`) : el("span", { text: method });
  }

  Clearhead.methodName = methodName;
  Clearhead.load = async () => {
    if (typeof DecompressionStream === "undefined") throw new Error(t("shell.old"));
    const [evidence, arrays] = await Promise.all([unzip("evidence"), unzip("arrays")]);
    const told = JSON.parse(new TextDecoder().decode(evidence));
    Clearhead.report = new Report(JSON.parse(block("report")), told, arrays);
    return Clearhead.report;
  };
})();
