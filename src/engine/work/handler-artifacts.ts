import { createHash } from 'node:crypto';
import {
  type Artifact,
  artifactCreated,
  checkContentType,
  DEFAULT_CONTENT_TYPE,
  noSuchArtifact,
  problemOfName,
  readChecksum,
} from '../../core/artifact.ts';
import { AppError, invalidRequest } from '../../core/errors.ts';
import { capabilitiesOf } from '../../core/governance/categories.ts';
import { isUuid } from '../../core/ids.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { findArtifact, finishArtifactOfJob, listArtifacts, type StoredFacts } from '../../ledger/artifacts/artifacts.ts';
import { type FencedAnswer, holdAttempt, jobCategory } from '../../ledger/attempts/fenced-writes.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { type ArtifactStorage, requireStorage } from '../artifacts/artifact-storage.ts';
import { storeArtifact } from '../artifacts/store-artifact.ts';
import type { ArtifactBytes, ArtifactOptions, ArtifactReference, JobArtifacts, ReadArtifact } from './job-artifacts.ts';
import type { RunningAttempt } from './running-attempt.ts';

/** What the context of an attempt does for its artifacts. */
export type AttemptPlace = {
  database: Database;
  storage(): ArtifactStorage | null;
  ensureStarted(): Promise<void>;
  inPlace<R extends { transactionEnded?: true }>(work: (db: Queryable, transactionId: string | null) => Promise<R>): Promise<R>;
  checkLanded(answer: FencedAnswer): void;
};

const OPTIONS = membersOf<ArtifactOptions>({ contentType: true, sha256: true });
const ACTOR = 'system:handler';
const MAX_LISTED = 1_000;

/** The files of one attempt. */
export class HandlerArtifacts implements JobArtifacts {
  readonly #attempt: RunningAttempt;
  readonly #place: AttemptPlace;

  constructor(attempt: RunningAttempt, place: AttemptPlace) {
    this.#attempt = attempt;
    this.#place = place;
  }

  async write(name: string, bytes: ArtifactBytes, options: ArtifactOptions = {}): Promise<ArtifactReference> {
    const storage = requireStorage(this.#place.storage());
    checkMembers(options, OPTIONS);
    const { contentType = DEFAULT_CONTENT_TYPE, sha256 } = options;
    const problems = [problemOfName(name), checkContentType(contentType)].filter((issue) => issue !== null);
    if (problems.length > 0) throw invalidRequest(...problems);
    const expected = sha256 === undefined ? undefined : { sha256: readChecksum(sha256, 'sha256'), field: 'sha256' };
    const source = chunksOf(bytes);
    await this.#place.ensureStarted();
    await this.#requireCapability();
    const { job, signal } = this.#attempt;
    let isLost = false;
    const artifact = await storeArtifact(
      { db: this.#place.database.workers, storage },
      {
        orgId: job.orgId,
        projectId: job.projectId,
        jobId: job.id,
        attempt: job.attemptsStarted,
        name,
        contentType,
        purpose: null,
        createdBy: ACTOR,
        source,
        expected,
        signal,
        finish: async (facts) => {
          const { landed, artifact: shown } = await this.#finish(facts);
          isLost = !landed;
          return shown;
        },
      },
    );
    if (isLost) this.#place.checkLanded({ landed: false, cancelRequested: null });
    if (artifact === null) throw new AppError('CONFLICT', { message: 'The file took more than a day to write and was given up.' });
    return referenceTo(artifact);
  }

  async read(artifactId: string): Promise<ReadArtifact> {
    const { store } = requireStorage(this.#place.storage());
    await this.#requireCapability();
    const { orgId, projectId } = this.#attempt.job;
    const found = isUuid(artifactId) ? await findArtifact(this.#place.database.workers, artifactId) : null;
    const isOurs = found !== null && found.artifact.orgId === orgId && (projectId === null || found.artifact.projectId === projectId);
    if (!isOurs) throw noSuchArtifact(String(artifactId));
    const opened = await store.get(found.place);
    if (opened === null) throw noSuchArtifact(artifactId);
    return { ...referenceTo(found.artifact), body: verified(opened.body, found.artifact) };
  }

  async list(): Promise<ArtifactReference[]> {
    const { orgId, id } = this.#attempt.job;
    const owner = { orgId, projectId: null };
    const references: ArtifactReference[] = [];
    for (let cursor: string | null = null; ; ) {
      const page = await listArtifacts(this.#place.database.workers, owner, { jobId: id, limit: MAX_LISTED, cursor });
      references.push(...page.artifacts.map(referenceTo));
      cursor = page.nextCursor;
      if (cursor === null) return references;
    }
  }

  /** The category of a job says what its handlers may do. */
  async #requireCapability(): Promise<void> {
    const { orgId, seq } = this.#attempt.job;
    const category = await jobCategory(this.#place.database.workers, { orgId, seq });
    if (capabilitiesOf(category).includes('artifacts')) return;
    const message = `Jobs of the category ${category} may not use artifacts. Use the category planning or import_export.`;
    throw new AppError('FORBIDDEN', { message });
  }

  /** Shows the file if this attempt still has the job. In the handler's own transaction, the file appears when that commits. */
  #finish(facts: StoredFacts): Promise<{ landed: boolean; artifact: Artifact | null }> {
    const { job } = this.#attempt;
    const requester = { actor: ACTOR, requestId: null, correlationId: job.correlationId };
    const finishIn = async (db: Queryable, transactionId: string | null) => {
      const held = await holdAttempt(db, { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq }, transactionId);
      const artifact = held.landed ? await finishArtifactOfJob(db, facts) : null;
      if (artifact !== null) await recordActions(db, [artifactCreated(artifact, requester, job.jobType)]);
      return { ...held, artifact };
    };
    return this.#place.inPlace((db, transactionId) =>
      transactionId === null
        ? inTransaction(this.#place.database.workers, (client) => finishIn(client, null))
        : finishIn(db, transactionId),
    );
  }
}

const referenceTo = ({ id, name, contentType, size, sha256, expiresAt }: Artifact): ArtifactReference => ({
  artifactId: id,
  name,
  contentType,
  size,
  sha256,
  expiresAt: expiresAt.toISOString(),
});

const NOT_BYTES = 'The content of an artifact must be a Uint8Array, a string, or a stream of them.';

function chunksOf(bytes: ArtifactBytes): AsyncIterable<Uint8Array> {
  if (typeof bytes === 'string' || bytes instanceof Uint8Array) return asChunks([bytes]);
  if (typeof (bytes as Partial<AsyncIterable<unknown>> | null)?.[Symbol.asyncIterator] === 'function') return asChunks(bytes);
  throw new AppError('INVALID_REQUEST', { message: NOT_BYTES });
}

async function* asChunks(parts: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Uint8Array, void> {
  for await (const part of parts) {
    if (typeof part === 'string') yield Buffer.from(part);
    else if (part instanceof Uint8Array) yield part;
    else throw new AppError('INVALID_REQUEST', { message: NOT_BYTES });
  }
}

async function* verified(body: AsyncIterable<Uint8Array>, { id, sha256 }: Artifact): AsyncGenerator<Uint8Array, void> {
  const hash = createHash('sha256');
  for await (const chunk of body) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest('hex') !== sha256) {
    throw new AppError('INTERNAL_ERROR', {
      message: `The stored bytes of artifact ${id} no longer have its checksum. Upload the file again.`,
    });
  }
}
