// Written by `python -m tools.wire_types` from the server's types: the benchmark's records and progress.

import type { Machine } from "./trace.js";

export interface Axis {
  name: string;
  title: Text;
  unit: string;
  scale: "category" | "linear" | "log";
  sets: string[];
  values: (number | string)[];
  cases: Case[];
}

export interface BenchAnswer {
  can_run: boolean;
  code: string;
  keeps_records: boolean;
  records: Listed[];
  scenarios: ScenarioCard[];
}

export interface BenchRecord {
  format: string;
  version: number;
  scenario: Scenario;
  environment: Environment;
  rounds: number;
  complete: boolean;
  peers: Record<string, string>;
  axis_values: (number | string)[];
  metrics: Record<string, MetricInfo>;
  points: Point[];
  findings: Finding[];
}

export interface Case {
  value: number | string;
  title: Text | null;
  set: Record<string, unknown>;
}

export interface Environment {
  created: string;
  command: string;
  commit: string | null;
  modified: boolean | null;
  code: string | null;
  system: string;
  machine: Machine;
  num_cpus: number;
  memory_bytes: number | null;
  seed: number;
  quiet: boolean;
  busy_cpus: number | null;
}

export interface Estimate {
  median: number;
  low: number;
  high: number;
}

export interface Figure {
  median: number;
  low: number;
  high: number;
  samples: number[];
  ratios: Record<string, Estimate>;
}

export interface Finding {
  title: Text;
  value: number;
  low: number | null;
  high: number | null;
  unit: string;
  bar: string;
  met: boolean | null;
  metric: string;
}

export interface Headline {
  title: Text;
  metric: string;
  variant: string;
  at: number | string | null;
  against: string | null;
  saturates: number | null;
  off_a_line: boolean;
  at_least: number | null;
  at_most: number | null;
  agrees: boolean;
  within: number | null;
  leads: number;
}

export interface Listed {
  id: string;
  origin: "here" | "shipped";
  scenario: string;
  title: Text;
  environment: Environment;
  rounds: number;
  complete: boolean;
  findings: Finding[];
  metrics: Record<string, MetricInfo>;
  traces: string[];
}

export interface MetricInfo {
  unit: string;
  better: "higher" | "lower" | null;
  source: "clock" | "count";
  title: Text;
}

export interface Point {
  at: number | string;
  variant: string;
  figures: Record<string, Figure>;
  tokens_identical: boolean | null;
  failed: string;
  trace: string | null;
}

export interface RunStatus {
  state: "done" | "failed" | "idle" | "running" | "stopping";
  run: string;
  theater: string;
  scenario: string;
  started: string;
  phase: string;
  round: number;
  rounds: number;
  at: number | string | null;
  variant: string;
  done: number;
  total: number;
  seconds_left: number | null;
  error: string;
}

export interface SLO {
  ttft: number;
  tpot: number;
}

export interface Scenario {
  id: string;
  title: Text;
  text: Text;
  workload: Record<string, unknown>;
  axis: Axis;
  variants: VariantSpec[];
  measure: string[];
  model: string;
  dtype: string;
  engine: Record<string, unknown>;
  sampling: Record<string, unknown>;
  tiers: Record<string, unknown>;
  observer: "capture" | "log" | "none";
  baselines: string[];
  compare_tokens: boolean;
  headlines: Headline[];
  slo: SLO | null;
  rounds: number;
  seed: number;
  needs_gpu: boolean;
}

export interface ScenarioCard {
  id: string;
  title: Text;
  text: Text;
  num_points: number;
  num_variants: number;
  rounds: number;
  refused: Text | null;
}

export interface Text {
  en: string;
  zh: string;
}

export interface VariantSpec {
  id: string;
  title: Text;
  set: Record<string, unknown>;
  peer: string | null;
  apart: boolean;
}

