import type { JobLimit } from '../../core/limit.ts';
import type { Policy, PolicyLayer } from '../../core/policy.ts';
import { IS_LIVE } from '../attempts/workers.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const ANNOUNCE = statement(
  'announce_type',
  `INSERT INTO millrace.job_types AS t (name, defaults, concurrency, custom_backoff, profile, max_payload_bytes, announced_at)
   VALUES ($1, $2::jsonb, $3::int4, $4::boolean, $5::jsonb, $6::int4, millrace.clock())
   ON CONFLICT (name) DO UPDATE SET defaults = excluded.defaults, concurrency = excluded.concurrency,
     custom_backoff = excluded.custom_backoff, profile = excluded.profile, max_payload_bytes = excluded.max_payload_bytes,
     announced_at = excluded.announced_at`,
);

// A type may be paused before any worker has announced it.
const PAUSE = statement(
  'pause_type',
  `INSERT INTO millrace.job_types AS t (name, paused_at, announced_at) VALUES ($1, millrace.clock(), millrace.clock())
   ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(t.paused_at, excluded.paused_at)`,
);

const RESUME = statement('resume_type', 'UPDATE millrace.job_types SET paused_at = NULL WHERE name = $1 AND paused_at IS NOT NULL');

const SET_CONCURRENCY = statement(
  'set_type_concurrency',
  `INSERT INTO millrace.job_types AS t (name, concurrency, announced_at) VALUES ($1, $2::int4, millrace.clock())
   ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency`,
);

const READ = statement(
  'read_types',
  `SELECT t.name, t.defaults, t.concurrency, t.custom_backoff AS "customBackoff", t.paused_at AS "pausedAt",
     t.announced_at AS "announcedAt", t.profile IS NOT NULL AS "isRegistered",
     EXISTS (SELECT FROM millrace.workers w WHERE ${IS_LIVE} AND t.name = ANY (w.types)) AS "isServed"
   FROM millrace.job_types t ORDER BY t.name`,
);

export type TypeAnnouncement = {
  name: string;
  /** Also the limit of its jobs. */
  defaults: PolicyLayer & { readonly limit?: JobLimit };
  concurrency: number | null;
  customBackoff: boolean;
};

/** What the process of the worker adds to a submission. The SQL function `millrace.submit` uses it, because its callers have no settings. */
export type SubmissionDefaults = { profile?: Policy; maxPayloadBytes?: number };

/** The latest announcement of a type counts. It does not end a pause. */
export async function announceType(db: Queryable, type: TypeAnnouncement & SubmissionDefaults): Promise<void> {
  const { name, defaults, concurrency, customBackoff, profile, maxPayloadBytes = null } = type;
  const base = profile === undefined ? null : JSON.stringify(profile);
  await run(db, ANNOUNCE, [name, JSON.stringify(defaults), concurrency, customBackoff, base, maxPayloadBytes]);
}

export async function pauseType(db: Queryable, name: string): Promise<void> {
  await run(db, PAUSE, [name]);
}

export async function resumeType(db: Queryable, name: string): Promise<void> {
  await run(db, RESUME, [name]);
}

/** Bounds how many jobs of the type run at the same time over all workers; null removes the bound. */
export async function setTypeConcurrency(db: Queryable, name: string, concurrency: number | null): Promise<void> {
  await run(db, SET_CONCURRENCY, [name, concurrency]);
}

/** `isServed` means that a worker of the type is alive, `isRegistered` that there was ever one. */
export type JobType = TypeAnnouncement & { pausedAt: Date | null; announcedAt: Date; isRegistered: boolean; isServed: boolean };

export async function readTypes(db: Queryable): Promise<JobType[]> {
  return run<JobType>(db, READ);
}
