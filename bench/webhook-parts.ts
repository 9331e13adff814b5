/** Splits the time of deliveries into parts, from the records of the ledger and of the endpoint. */
import type pg from 'pg';
import type { Arrival } from './webhook-endpoints.ts';

/** The steps of a delivery, each in milliseconds since the previous one. */
const PARTS = ['dispatched', 'promoted', 'started', 'arrived'] as const;
type Part = (typeof PARTS)[number];
type Times = Readonly<Record<Part | 'total', number>>;

const STATIONS = `
SELECT 'msg_' || replace(d.id::text, '-', '') AS id, ${['t.completed_at', 'd.created_at', 'j.created_at', 'j.started_at']
  .map((column, at) => `(extract(epoch FROM ${column}) * 1000)::float8 AS at${at}`)
  .join(', ')}
FROM millrace.webhook_deliveries d JOIN millrace.jobs t ON t.id = d.job_id
JOIN millrace.jobs j ON j.job_type = 'webhook.deliver' AND j.payload->>'delivery_id' = d.id::text`;

type Row = { id: string; at0: number; at1: number; at2: number; at3: number };

/** One entry for each arrival, the quickest first. */
export async function timesOf(pool: pg.Pool, arrivals: readonly Arrival[]): Promise<Times[]> {
  const { rows } = await pool.query<Row>(STATIONS);
  const stations = new Map(rows.map((row) => [row.id, row]));
  const times = arrivals.flatMap(({ messageId, atMs, ageMs }) => {
    const row = stations.get(messageId);
    if (row === undefined) return [];
    const { at0, at1, at2, at3 } = row;
    return [{ dispatched: at1 - at0, promoted: at2 - at1, started: at3 - at2, arrived: atMs - at3, total: ageMs }];
  });
  return times.sort((a, b) => a.total - b.total);
}

/** The parts of the median and of the 99th percentile, each part by itself, and those of the slowest in a hundred on average. */
export function breakdown(times: readonly Times[]): Record<string, Record<Part, number>> {
  const by = (pick: (part: Part) => number) =>
    Object.fromEntries(PARTS.map((part) => [part, Math.round(pick(part) * 10) / 10])) as Record<Part, number>;
  const slowest = times.slice(-Math.ceil(times.length / 100));
  return {
    p50: by((part) => quantile(times, part, 0.5)),
    p99: by((part) => quantile(times, part, 0.99)),
    'slowest 1 %': by((part) => slowest.reduce((sum, each) => sum + each[part], 0) / slowest.length),
  };
}

export function quantile(times: readonly Times[], part: keyof Times, q: number): number {
  const sorted = times.map((each) => each[part]).sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}
