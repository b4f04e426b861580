import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ratioOf } from "../../static/js/bench/differences.js";
import { curveStyle, styleOf, wrapped } from "../../static/js/bench/figure.js";
import { barText } from "../../static/js/bench/findings.js";
import { link, TABLE } from "../../static/js/bench/link.js";
import { NotARecord, parseRecord } from "../../static/js/bench/parse.js";
import {
  axisPoints,
  baselinesOf,
  csvOf,
  curves,
  failures,
  highest,
  isCategorical,
  metricOf,
  placesOf,
  variantsOf,
} from "../../static/js/bench/record.js";
import { estimateText, measureOf, numberText, quantityText } from "../../static/js/bench/words.js";
import "./words.mjs";
import { parseQuery, settings, writeQuery } from "../../static/js/state/settings.js";

const text = readFileSync(new URL("../../engine/bench/results/guard.json", import.meta.url), "utf8");
const guard = () => JSON.parse(text);

const figure = (median, low, high, ratios = {}) => ({ median, low, high, samples: [median], ratios });

test("a shipped record is read", () => {
  const record = parseRecord(text);
  assert.equal(record.scenario.id, "guard");
  assert.equal(isCategorical(record), false);
  assert.deepEqual(
    axisPoints(record).map(({ at }) => at),
    [256, 512],
  );
});

test("an invalid record is refused with a reason", () => {
  const changed = (change) => {
    const record = guard();
    change(record);
    return JSON.stringify(record);
  };
  const cases = [
    ["{", "bench.drop.not_json"],
    ["null", "bench.drop.not_a_record"],
    ['{"format": "other"}', "bench.drop.not_a_record"],
    [changed((r) => (r.version = 2)), "bench.drop.version"],
    [changed((r) => delete r.scenario), "bench.drop.damaged"],
    [changed((r) => (r.points[0].figures.seconds.median = "fast")), "bench.drop.damaged"],
    [changed((r) => (r.points[0].variant = "unknown")), "bench.drop.damaged"],
    [changed((r) => (r.environment.machine = null)), "bench.drop.damaged"],
    [changed((r) => (r.metrics.seconds.title = "one language")), "bench.drop.damaged"],
  ];
  for (const [given, message] of cases)
    assert.throws(
      () => parseRecord(given),
      (error) => error instanceof NotARecord && error.message === message,
      given.slice(0, 60),
    );
});

test("curves are the variants' medians with their intervals, or their ratios", () => {
  const record = guard();
  record.points = record.points.slice(0, 3);
  record.points[0].figures = { seconds: figure(2, 1, 3, { none: figure(1, 1, 1) }) };
  record.points[1].figures = { seconds: figure(1, 0.5, 1.5, { none: figure(0.5, 0.4, 0.7) }) };
  record.points[2].figures = {};
  const found = curves(record, "seconds");
  assert.deepEqual(
    found.map(({ variant, index, points }) => [
      variant.id,
      index,
      points.map(({ at, median, low, high }) => [at, median, low, high]),
    ]),
    [
      ["none", 0, [[256, 2, 1, 3]]],
      ["contiguous", 1, [[256, 1, 0.5, 1.5]]],
    ],
  );
  assert.deepEqual(
    curves(record, "seconds", "none")[1].points.map(({ median, low, high }) => [median, low, high]),
    [[0.5, 0.4, 0.7]],
  );
  assert.deepEqual(baselinesOf(record, "seconds"), ["none"]);
  assert.equal(highest([record], "seconds"), 3); // the upper end of an interval, not a median
  assert.equal(highest([record], "seconds", "none"), 1);
  delete record.points[1].figures.seconds.ratios.none;
  assert.deepEqual(baselinesOf(record, "seconds"), []); // the baseline against itself is no comparison
});

test("two records on one chart: a variant keeps colour and marker, the record has the line and open markers", () => {
  const [one, other] = [curveStyle(1, 0, 2), curveStyle(1, 1, 2)];
  assert.deepEqual([one.colour, one.symbol], [other.colour, other.symbol]);
  assert.deepEqual([one.dash, one.open, other.dash, other.open], ["solid", false, "dash", true]);
  assert.deepEqual(curveStyle(1, 0, 1), { ...styleOf(1), open: false });
});

test("points and variants of two records are merged, numbers in order", () => {
  const [one, other] = [guard(), guard()];
  other.axis_values = [128, 512];
  other.scenario.variants.push({ id: "new", title: { en: "new", zh: "新" }, set: {}, peer: null });
  assert.deepEqual(
    placesOf([one, other]).map(({ at }) => at),
    [128, 256, 512],
  );
  assert.deepEqual(
    variantsOf([one, other]).map(({ id }) => id),
    [...one.scenario.variants.map(({ id }) => id), "new"],
  );
});

test("the difference of two machines is a ratio to the first, as wide as both intervals allow", () => {
  assert.deepEqual(ratioOf(figure(2, 1, 4), figure(3, 2, 6)), { median: 1.5, low: 0.5, high: 6 });
  assert.deepEqual(ratioOf(figure(0, 0, 0), figure(0, 0, 0)), { median: 1, low: 1, high: 1 });
  assert.equal(ratioOf(figure(0, 0, 0), figure(3, 3, 3)), null);
});

test("a finding of an older record gets its metric from the headline of its title", () => {
  const record = guard();
  assert.ok(record.findings.length);
  for (const finding of record.findings) delete finding.metric;
  const metrics = record.findings.map((finding) => metricOf(record, finding));
  assert.deepEqual(metrics, ["output_tokens_per_second"]);
  assert.equal(metricOf(record, { ...record.findings[0], metric: "seconds" }), "seconds");
});

test("points that failed are gathered by reason", () => {
  const record = guard();
  for (const point of record.points.filter((p) => p.variant === "paged"))
    Object.assign(point, { failed: "no room", figures: {} });
  assert.deepEqual(failures(record), [{ variant: "paged", why: "no room", at: [256, 512] }]);
});

test("the CSV has every figure once for each baseline, quoted where it must be and never a formula", () => {
  const record = guard();
  record.points = record.points.slice(0, 3);
  record.points[0].figures = {
    seconds: { ...figure(2, 1, 3, { none: figure(1, 1, 1), other: figure(4, 3, 5) }), samples: [1, 2, 3] },
  };
  Object.assign(record.points[1], { figures: {}, failed: '=HYPERLINK("x"), no', tokens_identical: null });
  record.points[2].figures = { waste: figure(-0.5, -0.5, -0.5) };
  const lines = csvOf([{ id: "a", record }]).split("\r\n");
  assert.equal(
    lines[0],
    "record,created,scenario,axis,at,variant,metric,unit,median,low,high,samples," +
      "ratio_to,ratio,ratio_low,ratio_high,tokens_identical,failed",
  );
  const head = `a,${record.environment.created},guard,pool_slots,256`;
  assert.deepEqual(lines.slice(1), [
    `${head},none,seconds,s,2,1,3,1 2 3,none,1,1,1,true,`,
    `${head},none,seconds,s,2,1,3,1 2 3,other,4,3,5,true,`,
    `${head},contiguous,,,,,,,,,,,,"'=HYPERLINK(""x""), no"`,
    `${head},paged,waste,share,-0.5,-0.5,-0.5,-0.5,,,,,true,`,
    "",
  ]);
});

test("values are formatted by unit", () => {
  assert.equal(quantityText(0.0123, "s"), "12.3\u2009ms");
  assert.equal(quantityText(0.0263, "share"), "2.63\u2009%");
  assert.equal(quantityText(3 * 1024 ** 2, "B"), "3\u2009MiB");
  assert.equal(quantityText(4.3e10, "FLOP"), "43\u2009GFLOP");
  assert.equal(quantityText(12, "furlongs"), "12\u2009furlongs"); // a unit of a later version stays as it is
  assert.equal(measureOf("s", 0).unit, "s");
  assert.equal(numberText(7350), "7\u2009350");
  assert.equal(estimateText({ median: 6.66, low: 5.29, high: 10.2 }, "×"), "6.66× [5.29, 10.2]");
  assert.equal(estimateText({ median: 95, low: 95, high: 95 }, "steps"), "95\u2009steps");
  assert.equal(barText({ bar: "≤ 0.04", unit: "share" }), "≤ 4\u2009%");
  assert.equal(barText({ bar: "≥ 1.5", unit: "×" }), "≥ 1.5×");
});

test("a link carries scenario, metric, baseline and records, and nothing that is not a name", () => {
  const values = {
    ...Object.fromEntries(Object.entries(TABLE).map(([name, row]) => [name, row.initial])),
    scenario: "guard",
    metric: "waste",
    records: ["shipped-guard", "here-1"],
  };
  const query = writeQuery(values, TABLE);
  assert.equal(query, "scenario=guard&metric=waste&records=shipped-guard%2Chere-1");
  assert.deepEqual(parseQuery(query, TABLE), {
    scenario: "guard",
    metric: "waste",
    records: ["shipped-guard", "here-1"],
  });
  assert.deepEqual(parseQuery("scenario=../x&records=,%2F,&step=3", TABLE), {});
  assert.equal(link.lang, settings.lang); // language and theme are those of all pages
});

test("long names break into lines by words, Chinese anywhere", () => {
  assert.equal(wrapped("a few words here", 8), "a few<br>words<br>here");
  assert.equal(wrapped("a <b> & c", 20), "a &lt;b> &amp; c"); // a record's names are no markup
  assert.equal(wrapped("共享系统提示", 6), "共享系<br>统提示");
});
