import { type Queryable, run, statement } from '../driver/statement.ts';
import type { SeqBounds } from './search-bounds.ts';
import { candidatesText, matchingText, type Source } from './search-source.ts';

export type Total = { totalCount: number; totalIsEstimate: boolean };

/** Jobs looked at for the total: one that a source names costs several times one in order. */
const EXACT_COUNT: Record<Source['kind'], number> = { all: 5_000, named: 1_000 };

function countText(kind: Source['kind']): string {
  return `WITH ${candidatesText(kind, 'down')}
SELECT count(j.seq)::int8 AS found, (SELECT seq FROM frontier) AS frontier,
  (SELECT min(a.seq) FROM millrace.jobs a WHERE a.org_id = $1::uuid AND a.seq > $11) AS lowest,
  (SELECT max(a.seq) FROM millrace.jobs a WHERE a.org_id = $1::uuid AND a.seq < $12) AS highest
FROM ${matchingText(kind, 'down')} WHERE c.seq > coalesce((SELECT seq FROM frontier), 0) AND $10::int4 IS NOT NULL`;
}

const COUNTS = {
  all: statement('count_found_in_all', countText('all')),
  named: statement('count_found_in_named', countText('named')),
};

type Row = { found: number; frontier: number | null; lowest: number | null; highest: number | null };

/** Exact where all candidates could be looked at; beyond, as many as the newest are dense over all of them. */
export async function totalOf(
  db: Queryable,
  { matching, source, bounds }: { matching: readonly unknown[]; source: Source; bounds: SeqBounds },
): Promise<Total> {
  const values = [...matching, 0, bounds.low, bounds.high, ...sourceValues(source, EXACT_COUNT[source.kind])];
  const [row] = await run<Row>(db, COUNTS[source.kind], values);
  const found = Number(row?.found ?? 0);
  if (row === undefined || row.frontier === null) return { totalCount: found, totalIsEstimate: false };
  const [lowest, highest, frontier] = [Number(row.lowest), Number(row.highest), Number(row.frontier)];
  const density = found / Math.max(1, highest - frontier);
  return { totalCount: Math.max(found, Math.round(density * (highest - lowest + 1))), totalIsEstimate: true };
}

/** From $13 on, as `candidatesText` numbers them. */
export function sourceValues(source: Source, budget: number): unknown[] {
  if (source.kind === 'all') return [budget];
  return [budget, source.terms, source.tokens, source.changedAfterUs];
}
