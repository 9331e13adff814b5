import { createHash, randomBytes } from 'node:crypto';
import { fingerprint } from '../../core/canonical-json.ts';
import { AppError, andMore, invalidRequest } from '../../core/errors.ts';
import { PermanentError } from '../../core/failure.ts';
import { uuidV7 } from '../../core/ids.ts';
import { buildTasks, IllegalTasks } from '../../core/ingest/build-tasks.ts';
import type { FetchTask } from '../../core/ingest/fetch-task.ts';
import { type IngestJobType, isJobTypeName, plainJobType } from '../../core/ingest/job-type.ts';
import { type Manifest, readManifest } from '../../core/ingest/manifest.ts';
import { memberBytes } from '../../core/ingest/member-bytes.ts';
import { manifestKeysOf } from '../../core/ingest/object-key.ts';
import { addIntent } from '../../ledger/ingest/ingest-intents.ts';
import { findIngestKey, type KeyedJob } from '../../ledger/ingest/ingest-keys.ts';
import { appendEntries } from '../../ledger/ingest/streams.ts';
import type { IngestCaller, IngestContext } from './context.ts';
import { forgetObjects } from './orphaned-objects.ts';
import { writeIngestJob } from './write-job.ts';

export type ManifestRequest = {
  /** Called after the manifest was validated, because a new tenant gets an org. */
  identify(): Promise<IngestCaller>;
  readonly jobType: string;
  readonly idempotencyKey: string | null;
  /** The body as it was sent, decompressed. */
  readonly bytes: Buffer;
  /** The same body, parsed. */
  readonly body: unknown;
  /** Aborts when the client has gone or was answered. */
  readonly signal: AbortSignal;
};

export type AcceptedManifest = {
  readonly jobId: string;
  readonly jobType: string;
  readonly bucket: string;
  readonly resourceCount: number;
  /** The key belongs to an earlier submission, and this is its job. */
  readonly isRepeat: boolean;
};

/**
 * Accepts a manifest: validates it, stores its objects, and writes the job, its tasks and the stream in one transaction. It returns after
 * everything is durable. A repeat with the same idempotency key returns the first job.
 */
export async function submitManifest(c: IngestContext, request: ManifestRequest): Promise<AcceptedManifest> {
  const jobType = jobTypeOf(c, request.jobType);
  const read = readManifest(request.body, c.settings);
  if (!read.ok) {
    const [first] = read.issues;
    throw new AppError('INVALID_REQUEST', { message: `${first?.message}${andMore(read.issues)}`, details: read.issues });
  }
  const caller = await request.identify();
  const { orgId } = caller;
  const key = request.idempotencyKey === null ? null : { orgId, jobType: jobType.name, key: request.idempotencyKey };
  const asked = key === null ? '' : fingerprintOf(request);
  const first = key === null ? null : await findIngestKey(c.engine.database.api, key);
  if (first !== null) return repeatOf(c, caller, { first, asked, jobType });

  const jobId = uuidV7(Date.now(), randomBytes(16));
  const tasks = await tasksOf(c, { caller, jobType, jobId, manifest: read.manifest });
  request.signal.throwIfAborted();
  await storeObjects(c, { jobId, jobType: jobType.name, bytes: request.bytes });
  request.signal.throwIfAborted();
  const windowMs = windowOf(c, caller, jobType);
  const outcome = await writeIngestJob(c, {
    jobId,
    jobType,
    tasks,
    manifest: read.manifest,
    manifestSha256: sha256(request.bytes),
    key: key === null ? null : { ...key, fingerprint: asked, windowMs },
    caller,
  });
  if (outcome.kind === 'repeat') {
    await forgetObjects(c, { jobId, bucket: c.settings.bucket, jobType: jobType.name }).catch(() => {});
    return repeatOf(c, caller, { first: outcome.first, asked, jobType });
  }
  // No download will end, so nothing else makes the settler look at the job soon.
  if (tasks.length === 0) c.onChanged([jobId]);
  const { bucket } = c.settings;
  return { jobId, jobType: jobType.name, bucket, resourceCount: read.manifest.resources.length, isRepeat: false };
}

/** The canonical form of a larger manifest takes too long in one turn of the event loop. Its repeats must have the same bytes. */
const LARGE_BYTES = 131_072;

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const fingerprintOf = ({ body, bytes }: ManifestRequest): string => (bytes.length > LARGE_BYTES ? sha256(bytes) : fingerprint(body));

function jobTypeOf({ settings }: IngestContext, name: string): IngestJobType {
  const known = settings.jobTypes.get(name);
  if (known !== undefined) return known;
  if (settings.allowsUnlisted && isJobTypeName(name)) return plainJobType(name);
  throw new AppError('FORBIDDEN', {
    problem: 'UNSUPPORTED_JOB_TYPE',
    message: `The job type ${JSON.stringify(name.slice(0, 100))} is not supported. Add a section [job_types.${isJobTypeName(name) ? name : 'name'}] to the configuration, or use "default".`,
  });
}

/** The narrowest setting wins: tenant, job type, all. */
function windowOf({ settings }: IngestContext, { tenant }: IngestCaller, jobType: IngestJobType): number {
  const ofTenant = tenant === null ? undefined : settings.tenantWindowsMs.get(tenant);
  return ofTenant ?? jobType.idempotencyWindowMs ?? settings.idempotencyWindowMs;
}

type Preparing = { caller: IngestCaller; jobType: IngestJobType; jobId: string; manifest: Manifest };

/** A permanent error of the handler refuses the request. Any other error, and a list that cannot be run, is a fault of the handler. */
async function tasksOf(c: IngestContext, { caller, jobType, jobId, manifest }: Preparing): Promise<FetchTask[]> {
  const { bucket } = c.settings;
  const { tenant } = caller;
  try {
    return await buildTasks(manifest, { jobId, jobType, bucket, tenant, handler: c.handlerOf(jobType) });
  } catch (error) {
    if (error instanceof PermanentError) {
      throw invalidRequest({ field: 'body', code: error.code, message: error.message });
    }
    const message = error instanceof IllegalTasks ? error.message : `The handler of ${jobType.name} failed: ${String(error)}`;
    throw new Error(message, { cause: error });
  }
}

/** Both objects are durable when this returns. The intent lets a sweeper find them if the job is never written. */
async function storeObjects(
  { engine, store, settings }: IngestContext,
  stored: { jobId: string; jobType: string; bytes: Buffer },
): Promise<void> {
  const { jobId, jobType, bytes } = stored;
  const { bucket } = settings;
  await addIntent(engine.database.api, { jobId, bucket, jobType });
  const keys = manifestKeysOf(jobType, jobId);
  const metadata = memberBytes(bytes, 'metadata') as Uint8Array;
  const options = { contentType: 'application/json' };
  await Promise.all([
    store.put({ bucket, key: keys.metadata }, metadata, options),
    store.put({ bucket, key: keys.manifest }, bytes, options),
  ]);
}

type Repeat = { first: KeyedJob; asked: string; jobType: IngestJobType };

/** A key with another manifest returns the first job as well, because the contract has no conflict. The log of that job says so. */
async function repeatOf(c: IngestContext, caller: IngestCaller, { first, asked, jobType }: Repeat): Promise<AcceptedManifest> {
  const { jobId, bucket, resourceCount } = first;
  if (first.fingerprint !== asked) {
    const message = 'The idempotency key was used again with another manifest. The new manifest was ignored.';
    const body = { level: 'warn', event: 'idempotency.conflict', message, details: { request_id: caller.requestId } };
    await appendEntries(c.engine.database.api, [{ stream: 'jobs.logs', orgId: caller.orgId, jobId, body }]);
  }
  return { jobId, jobType: jobType.name, bucket, resourceCount, isRepeat: true };
}
