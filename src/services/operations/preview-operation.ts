import { isCategoryName } from '../../core/governance/categories.ts';
import { inspectPayload } from '../../core/governance/govern.ts';
import { actsOnDeadLetters } from '../../core/governance/operation.ts';
import { isUuid } from '../../core/ids.ts';
import type { Job } from '../../core/job.ts';
import { maskPayload } from '../../core/mask-payload.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { correctPayload } from '../../engine/operations/correct-payload.ts';
import { countEntries } from '../../ledger/dead-letters/count-entries.ts';
import { getEntries, listEntries } from '../../ledger/dead-letters/read-entries.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { getJobs } from '../../ledger/reads/get-job.ts';
import { countMatching } from '../../ledger/search/count-matching.ts';
import { searchJobs } from '../../ledger/search/search-jobs.ts';
import { type OperationRequest, type ReadRequest, readOperationRequest } from './operation-request.ts';

/** What an operation would do with one job. The payloads are masked. */
type PreviewItem = { jobId: string; before: unknown; after: unknown; error?: string };

export type Preview = { matching: number; sample: PreviewItem[] };

const SAMPLE = 10;

export type PreviewParams = Owner & { request: OperationRequest; signal?: AbortSignal };

/** Returns how many jobs an operation would act on, and what it would do with some of them. It changes nothing. */
export async function previewOperation(engine: Engine, { request, signal, ...owner }: PreviewParams): Promise<Preview> {
  const read = readOperationRequest(request);
  return engine.searches.run(
    owner.orgId,
    async (db) => {
      const { matching, ids } = await find(db, owner, read);
      const jobs = await getJobs(db, owner, ids);
      return { matching, sample: await Promise.all(jobs.map((job) => previewOf(engine, job, read))) };
    },
    signal,
  );
}

type Found = { matching: number; ids: string[] };

async function find(db: Queryable, owner: Owner, { action, target }: ReadRequest): Promise<Found> {
  if (target.kind === 'entries') {
    const matching = await countEntries(db, owner, target.filter);
    const { entries } = await listEntries(db, owner, { filter: target.filter, limit: SAMPLE, cursor: null });
    return { matching, ids: entries.map(({ jobId }) => jobId) };
  }
  if (target.kind === 'jobs') {
    const { matching } = await countMatching(db, owner, target.filter);
    const { jobs } = await searchJobs(db, owner, target.filter, { limit: SAMPLE, total: false });
    return { matching, ids: jobs.map(({ id }) => id) };
  }
  const named = target.jobIds.filter(isUuid);
  const found = actsOnDeadLetters(action) ? await getEntries(db, owner, named) : named;
  return { matching: found.length, ids: found.slice(0, SAMPLE) };
}

async function previewOf(engine: Engine, job: Job, { action, correction }: ReadRequest): Promise<PreviewItem> {
  const { payload } = job;
  const old = payload.kind === 'bytes' ? { payload: null, isBytes: true } : { payload: payload.text, isBytes: false };
  const before = maskPayload(payload.kind === 'bytes' ? payload.bytes : JSON.parse(payload.text));
  if (action === 'discard' || action === 'cancel') return { jobId: job.id, before, after: null };
  if (correction === null) return { jobId: job.id, before, after: before };
  const corrected = correctPayload(old, correction, engine.limits.maxPayloadBytes);
  if (!corrected.ok) return { jobId: job.id, before, after: null, error: corrected.message };
  const after = maskPayload(corrected.payload);
  const broken = await brokenRule(engine, job, corrected.payload);
  return broken === null ? { jobId: job.id, before, after } : { jobId: job.id, before, after, error: broken };
}

/** Which rule of its category the corrected job would break. Null: none. */
async function brokenRule({ governance }: Engine, { category: name }: Job, payload: unknown): Promise<string | null> {
  const category = isCategoryName(name) ? governance.categories.get(name) : undefined;
  if (category === undefined) return null;
  const { issues } = await inspectPayload({ kind: 'json', text: JSON.stringify(payload) }, category);
  return issues[0]?.message ?? null;
}
