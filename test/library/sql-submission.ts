/** Submits through `millrace.submit` what a test would submit through the library, and shows what either has written. */
import { parseDuration } from '../../src/core/duration.ts';
import type { Issue } from '../../src/core/errors.ts';
import type { Submission } from '../../src/core/submission.ts';

/** A client or pool of pg. */
export type Sql = { query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }> };

/** The names of the library as the function spells them: `backoff.initialDelay` is `backoff_initial_delay`. */
export function sqlName(path: string): string {
  if (path.startsWith('tags') || path.startsWith('payload')) return path;
  if (path === 'type') return 'job_type';
  return path.replaceAll('.', '_').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

const DURATIONS = new Set(['delay', 'timeout', 'lifetime', 'backoff.initialDelay', 'backoff.maxDelay', 'limit.per']);
const CASTS = new Map([
  ['payload', '::jsonb'],
  ['tags', '::jsonb'],
  ['delay', '::interval'],
  ['timeout', '::interval'],
  ['lifetime', '::interval'],
  ['backoff_initial_delay', '::interval'],
  ['backoff_max_delay', '::interval'],
  ['limit_per', '::interval'],
  ['depends_on', '::uuid[]'],
]);

/** A duration that the library refuses is sent as it is, so that PostgreSQL reads it. */
function intervalOf(value: string | number): string {
  const parsed = parseDuration(value);
  if (parsed.ok) return `${parsed.ms} milliseconds`;
  return typeof value === 'number' ? `${value} seconds` : value;
}

function* parametersOf(submission: Submission, prefix = ''): Generator<[string, unknown]> {
  for (const [member, value] of Object.entries(submission)) {
    const path = `${prefix}${member}`;
    if (value === undefined || value === null) continue;
    if (path === 'backoff' || path === 'limit') yield* parametersOf(value as Submission, `${path}.`);
    else if (path === 'payload')
      yield [path, JSON.stringify(value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString('base64') } : value)];
    else if (path === 'tags') yield [path, JSON.stringify(value)];
    else yield [sqlName(path), DURATIONS.has(path) ? intervalOf(value as string) : value];
  }
}

export type BySql = { id: string } | { sqlState: string; code: string; issues: Issue[]; message: string; hint: string };

/** Calls the function with the members of a submission, and returns the id of the job or the refusal. */
export async function submitBySql(db: Sql, submission: Submission, org?: string): Promise<BySql> {
  const given = [...parametersOf(submission), ...(org === undefined ? [] : [['org', org] as const])];
  if (!given.some(([name]) => name === 'job_type')) given.push(['job_type', null]);
  if (!given.some(([name]) => name === 'payload')) given.push(['payload', null]);
  const list = given.map(([name], index) => `${name} => $${index + 1}${CASTS.get(name) ?? ''}`).join(', ');
  const values = given.map(([, value]) => value);
  try {
    const { rows } = await db.query(`SELECT millrace.submit(${list}) AS id`, values);
    return { id: rows[0]?.id as string };
  } catch (error) {
    const { code, detail, message, hint } = error as { code: string; detail?: string; message: string; hint: string };
    if (!code?.startsWith('MR')) throw error;
    const read = JSON.parse(detail as string) as { code: string; details: Issue[] };
    return { sqlState: code, code: read.code, issues: read.details, message, hint };
  }
}

/** What both doors must write: every column, with ids left out and times counted from the submission, but for one that the caller gave. */
export async function writtenFor(
  db: Sql,
  id: string,
  { scheduledAt }: Pick<Submission, 'scheduledAt'> = {},
): Promise<Record<string, unknown>> {
  const job = (await rowsOf(db, 'jobs', 'j.id = $1::uuid', [id]))[0] as Record<string, unknown> & { seq: string; org_id: string };
  const own = [job.org_id, job.seq];
  const of = (table: string, where: string) => rowsOf(db, table, `j.org_id = $1::uuid AND ${where}`, own);
  const found = {
    job: [job],
    ready: await of('ready', '$2::int8 = ANY (j.seqs)'),
    limited: await of('limited', 'j.seq = $2::int8'),
    timers: await of('timers', 'j.seq = $2::int8'),
    waiting: await of('waiting', 'j.seq = $2::int8'),
    releases: await of('releases', 'j.seq = $2::int8'),
    dependencies: await of('dependencies', 'j.job_seq = $2::int8'),
    records: await of('records', '$2::int8 = ANY (j.seqs)'),
    keys: await rowsOf(db, 'idempotency_keys', 'j.job_id = $1::uuid', [id]),
  };
  const time = { at: Date.parse(job.created_at as string), isGiven: scheduledAt != null };
  return Object.fromEntries(Object.entries(found).map(([table, rows]) => [table, rows.map((row) => comparable(row, time))]));
}

async function rowsOf(db: Sql, table: string, where: string, values: unknown[]): Promise<Record<string, unknown>[]> {
  const { rows } = await db.query(`SELECT to_jsonb(j) AS row FROM millrace.${table} j WHERE ${where}`, values);
  return rows.map(({ row }) => row as Record<string, unknown>);
}

/** These are never equal: numbers of sequences, ids, and the key by which a test tells two jobs apart. */
const OWN = new Set(['id', 'seq', 'seqs', 'order_key', 'record_ids', 'job_id', 'job_seq', 'txid', 'idempotency_key', 'key']);

type Time = { at: number; isGiven: boolean };

function comparable(row: Record<string, unknown>, time: Time): Record<string, unknown> {
  const entries = Object.entries(row).filter(([name]) => !OWN.has(name));
  return Object.fromEntries(entries.map(([name, value]) => [name, comparableValue(name, value, time)]));
}

function comparableValue(name: string, value: unknown, { at, isGiven }: Time): unknown {
  if (typeof value !== 'string' || !/(?:_at|^at|_deadline)$/.test(name)) return value;
  return isGiven && name === 'run_at' ? value : `+${Date.parse(value) - at}`;
}
