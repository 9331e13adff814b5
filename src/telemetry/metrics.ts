/** The values of a metric's labels, by name. */
type Labels = Readonly<Record<string, string | number>>;

export type Counter = { add(labels?: Labels, by?: number): void };
export type Gauge = { set(value: number, labels?: Labels): void };
export type Histogram = { observe(value: number, labels?: Labels): void };

type Kind = 'counter' | 'gauge' | 'histogram';

export type MetricDefinition = {
  readonly name: string;
  readonly kind: Kind;
  readonly labels: readonly string[];
  readonly help: string;
};

type Definition = { name: string; help: string; labels: readonly string[]; buckets?: readonly number[] };

/** The metrics of a process, in the text format of Prometheus (0.0.4). */
export class Metrics {
  readonly #families = new Map<string, Family>();
  readonly #scrapers: (() => Promise<void>)[] = [];

  /** A second call with the same name returns the same metric. */
  counter(name: string, help: string, labels: readonly string[] = []): Counter {
    const family = this.#family('counter', { name, help, labels });
    return { add: (values, by = 1) => family.add(by, values) };
  }

  gauge(name: string, help: string, labels: readonly string[] = []): Gauge {
    const family = this.#family('gauge', { name, help, labels });
    return { set: (value, values) => family.set(value, values) };
  }

  /** `buckets` are upper bounds in ascending order, without the infinite one. */
  histogram(name: string, help: string, buckets: readonly number[], labels: readonly string[] = []): Histogram {
    const family = this.#family('histogram', { name, help, labels, buckets });
    return { observe: (value, values) => family.observe(value, values) };
  }

  /** Registers a callback that updates metrics before each scrape. A callback that fails is ignored. */
  onScrape(measure: () => Promise<void>): void {
    this.#scrapers.push(measure);
  }

  definitions(): MetricDefinition[] {
    return [...this.#families.values()].map((family) => family.definition);
  }

  async text(): Promise<string> {
    await Promise.allSettled(this.#scrapers.map((measure) => measure()));
    return [...this.#families.values()].map((family) => family.text()).join('');
  }

  #family(kind: Kind, definition: Definition): Family {
    const { name, labels } = definition;
    const known = this.#families.get(name);
    if (known === undefined) {
      const made = new Family(kind, definition);
      this.#families.set(name, made);
      return made;
    }
    if (known.kind === kind && known.labels.join() === labels.join()) return known;
    throw new Error(`The metric ${name} already exists as a ${known.kind} with the labels (${known.labels.join(', ')}).`);
  }
}

/** One number; for a histogram the count of each bucket, then the sum. */
type Series = { readonly labels: string; readonly values: number[] };
/** A tree of series, with one level for each label. */
type Branch = Map<string, Branch | Series>;

const NO_LABELS: Labels = Object.freeze({});

/** One metric with the series of all its label values. */
class Family {
  readonly kind: Kind;
  readonly labels: readonly string[];
  readonly #definition: Definition;
  readonly #buckets: readonly number[];
  readonly #series: Series[] = [];
  readonly #byLabels: Branch = new Map();
  /** The series of a metric without labels. It exists from the start, so that a rate includes the first event. */
  readonly #only: Series | null;

  constructor(kind: Kind, definition: Definition) {
    this.kind = kind;
    this.#definition = definition;
    this.labels = definition.labels;
    this.#buckets = [...(definition.buckets ?? []), Number.POSITIVE_INFINITY];
    this.#only = this.labels.length === 0 ? this.#add(NO_LABELS) : null;
  }

  get definition(): MetricDefinition {
    const { name, help } = this.#definition;
    return { name, kind: this.kind, labels: this.labels, help };
  }

  add(by: number, labels: Labels = NO_LABELS): void {
    const { values } = this.#of(labels);
    values[0] = (values[0] as number) + by;
  }

  set(value: number, labels: Labels = NO_LABELS): void {
    this.#of(labels).values[0] = value;
  }

  observe(value: number, labels: Labels = NO_LABELS): void {
    const { values } = this.#of(labels);
    const bucket = this.#buckets.findIndex((bound) => value <= bound);
    values[bucket] = (values[bucket] as number) + 1;
    values[this.#buckets.length] = (values[this.#buckets.length] as number) + value;
  }

  text(): string {
    const { name, help } = this.#definition;
    const lines = [`# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`, `# TYPE ${name} ${this.kind}`];
    for (const series of this.#series) {
      if (this.kind === 'histogram') lines.push(...this.#histogramLines(series));
      else lines.push(`${name}${braced(series.labels)} ${series.values[0]}`);
    }
    return `${lines.join('\n')}\n`;
  }

  #histogramLines({ labels, values }: Series): string[] {
    const { name } = this.#definition;
    let count = 0;
    const lines = this.#buckets.map((bound, index) => {
      count += values[index] as number;
      const le = `le="${bound === Number.POSITIVE_INFINITY ? '+Inf' : bound}"`;
      return `${name}_bucket${braced(labels === '' ? le : `${labels},${le}`)} ${count}`;
    });
    lines.push(`${name}_sum${braced(labels)} ${values[this.#buckets.length]}`, `${name}_count${braced(labels)} ${count}`);
    return lines;
  }

  /** Finds a series by its label values. A lookup by the text of the labels took 2 us per request. */
  #of(given: Labels): Series {
    if (this.#only !== null) return this.#only;
    const { labels } = this;
    const last = labels.length - 1;
    let branch = this.#byLabels;
    for (let index = 0; index < last; index++) {
      const value = textOf(given, labels[index] as string);
      let next = branch.get(value) as Branch | undefined;
      if (next === undefined) {
        next = new Map();
        branch.set(value, next);
      }
      branch = next;
    }
    const value = textOf(given, labels[last] as string);
    let series = branch.get(value) as Series | undefined;
    if (series === undefined) {
      series = this.#add(given);
      branch.set(value, series);
    }
    return series;
  }

  #add(given: Labels): Series {
    const labels = this.labels.map((label) => `${label}="${escaped(textOf(given, label))}"`).join(',');
    const series = { labels, values: new Array(this.kind === 'histogram' ? this.#buckets.length + 1 : 1).fill(0) };
    this.#series.push(series);
    return series;
  }
}

const textOf = (given: Labels, label: string): string => String(given[label] ?? '');

const braced = (labels: string): string => (labels === '' ? '' : `{${labels}}`);

const escaped = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
