import type pg from 'pg';
import type { AppError } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { findKeys, keyScopeOf } from '../../ledger/jobs/idempotency-keys.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import type { Admission, Place } from './admission.ts';
import { throughQueues } from './queue-intake.ts';
import { bytesOf } from './stored-limit.ts';

/** The result for a job of a batch: written, a repeat, or refused. */
export type Outcome = Written | AppError;

export type BatchToWrite = {
  orgId: string;
  entries: readonly JobToWrite[];
  /** All or none. */
  isWhole: boolean;
  write(entries: readonly JobToWrite[], client?: pg.ClientBase): Promise<Outcome[]>;
};

type Parts = Pick<Engine, 'catalogue' | 'database'>;

/** Writes as many jobs as there is room for, in order, except those that their queues refuse. Repeats need no room. */
export function admitBatch(engine: Parts, admission: Admission | undefined, batch: BatchToWrite): Promise<Outcome[]> {
  const { orgId, entries, isWhole } = batch;
  return throughQueues(engine, { orgId, entries, depths: admission?.depths }, async (refused) => {
    if (refused.size === 0) return admitAll(engine, admission, batch);
    const refusals = new Map([...refused].map(([entry, refusal]) => [entry, admission?.refusedByQueue(refusal) ?? refusal]));
    const accepted = entries.filter((entry) => !refusals.has(entry));
    if (isWhole) throw refusals.values().next().value;
    const written = accepted.length === 0 ? [] : await admitAll(engine, admission, { ...batch, entries: accepted });
    const outcomes = new Map(accepted.map((entry, index) => [entry, written[index] as Outcome]));
    return entries.map((entry) => outcomes.get(entry) ?? (refusals.get(entry) as AppError));
  });
}

function admitAll(engine: Parts, admission: Admission | undefined, batch: BatchToWrite): Promise<Outcome[]> {
  const { orgId, entries, write } = batch;
  if (admission === undefined) return write(entries);
  return admission.admit<Outcome[]>(
    (place) => (place === undefined ? write(entries) : writeFitting(place.client ?? engine.database.api, place, batch)),
    { orgId, jobs: entries.length, least: 0, bytes: entries.reduce((sum, entry) => sum + bytesOf(entry), 0) },
  );
}

async function writeFitting(db: Queryable, { client, room, refusal }: Place, batch: BatchToWrite): Promise<Outcome[]> {
  const { orgId, entries, isWhole, write } = batch;
  const fitting = await fittingOf(db, { orgId, entries, room });
  if (isWhole && fitting.length < entries.length) throw refusal;
  if (fitting.length === 0) return entries.map(() => refusal);
  const written = await write(fitting, client);
  const outcomes = new Map<JobToWrite, Outcome>(fitting.map((entry, index) => [entry, written[index] as Outcome]));
  return entries.map((entry) => outcomes.get(entry) ?? refusal);
}

type Fit = { orgId: string; entries: readonly JobToWrite[]; room: number };

async function fittingOf(db: Queryable, { orgId, entries, room }: Fit): Promise<readonly JobToWrite[]> {
  if (entries.length <= room) return entries;
  const keyed = entries.filter(({ job }) => job.idempotencyKey !== null);
  const keys = keyed.map(({ job }) => ({ scope: keyScopeOf(job), key: job.idempotencyKey as string }));
  const found = keys.length === 0 ? [] : await findKeys(db, orgId, keys);
  const repeats = new Set(keyed.filter((_, index) => found[index] !== null));
  let left = room;
  return entries.filter((entry) => repeats.has(entry) || left-- > 0);
}
