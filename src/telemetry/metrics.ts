import { Counter, collectDefaultMetrics, Gauge, Histogram, type Metric, Registry } from 'prom-client';
import type { MetricDefinition } from './catalogue.ts';

/** The values of a metric's labels, by name. */
export type Labels = Readonly<Record<string, string | number>>;

/** One line of a metric that is read from elsewhere. `suffix` is `_bucket`, `_sum` or `_count` in a histogram. */
export type Sample = { readonly labels: Labels; readonly value: number; readonly suffix?: string };

type Made = { readonly definition: MetricDefinition; readonly metric: unknown };

/** Gauges of prom-client whose names end like those of counters. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** The metrics that a process shows, in the text format of Prometheus (0.0.4). */
export class Metrics {
  readonly #registry = new Registry();
  readonly #made = new Map<string, Made>();
  readonly #scrapers: (() => Promise<void>)[] = [];

  readonly contentType: string = this.#registry.contentType;

  /** A second call with the same definition returns the same metric. */
  counter(definition: MetricDefinition): Counter {
    return this.#make('counter', definition, (base) => new Counter(base));
  }

  gauge(definition: MetricDefinition): Gauge {
    return this.#make('gauge', definition, (base) => new Gauge(base));
  }

  /** `buckets` are upper bounds in ascending order, without the infinite one. */
  histogram(definition: MetricDefinition, buckets: readonly number[]): Histogram {
    return this.#make('histogram', definition, (base) => new Histogram({ ...base, buckets: [...buckets] }));
  }

  /** A metric whose values are counted elsewhere. `read` returns them at each scrape. */
  collected(definition: MetricDefinition, read: () => readonly Sample[]): void {
    const { name, help, kind } = definition;
    this.#make(kind, definition, () => {
      const values = () => read().map(({ labels, value, suffix = '' }) => ({ labels, value, metricName: `${name}${suffix}` }));
      const metric = { name, help, type: kind, get: async () => ({ name, help, type: kind, aggregator: 'first', values: values() }) };
      this.#registry.registerMetric(metric as unknown as Metric);
      return metric;
    });
  }

  /** Adds the memory, processor time, event loop and garbage collection of this process. */
  collectProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
    for (const name of MISNAMED) this.#registry.removeSingleMetric(name);
  }

  /** Registers a callback that updates metrics before each scrape. A callback that fails is ignored. */
  onScrape(measure: () => Promise<void>): void {
    this.#scrapers.push(measure);
  }

  definitions(): MetricDefinition[] {
    return [...this.#made.values()].map(({ definition }) => definition);
  }

  async text(): Promise<string> {
    await Promise.allSettled(this.#scrapers.map((measure) => measure()));
    return this.#registry.metrics();
  }

  #make<M>(kind: MetricDefinition['kind'], definition: MetricDefinition, make: (base: Base) => M): M {
    const { name, help, labels } = definition;
    const known = this.#made.get(name);
    if (known !== undefined) {
      const was = known.definition;
      if (was === definition) return known.metric as M;
      if (was.kind === kind && was.labels.join() === labels.join()) return known.metric as M;
      throw new Error(`The metric ${name} already exists as a ${was.kind} with the labels (${was.labels.join(', ')}).`);
    }
    const metric = make({ name, help, labelNames: [...labels], registers: [this.#registry] });
    this.#made.set(name, { definition, metric });
    return metric;
  }
}

type Base = { name: string; help: string; labelNames: string[]; registers: Registry[] };
