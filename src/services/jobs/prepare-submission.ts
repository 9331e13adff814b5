import { randomFillSync } from 'node:crypto';
import { BytePool } from '../../core/byte-pool.ts';
import { isCategoryName } from '../../core/governance/categories.ts';
import type { Governance } from '../../core/governance/category.ts';
import { uuidV4 } from '../../core/ids.ts';
import type { JobLimit } from '../../core/limit.ts';
import type { Policy } from '../../core/policy.ts';
import { checkSimulation, SIMULATE_TYPE } from '../../core/simulation.ts';
import {
  type NewJob,
  type NormalizedSubmission,
  normalizeSubmission,
  type Submission,
  type SubmissionLimits,
} from '../../core/submission.ts';
import type { QueueNames } from '../../core/submission-fields.ts';
import type { RegistrationPolicy } from '../../core/submission-policy.ts';
import { unknownProject } from '../../core/unknown-project.ts';
import type { Prepared, SubmissionRequest, SubmissionTerms } from '../../engine/submit/prepared.ts';
import type { ProjectCache } from '../../ledger/access/projects.ts';
import type { LimitCache } from '../../ledger/jobs/intern-limits.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { CallbackOrgs } from '../../ledger/webhooks/callback-orgs.ts';

/** The parts of the engine that prepare a submission. */
export type Intake = {
  /** The policy of jobs whose submission and handler set no value. */
  readonly profile: Policy;
  readonly limits: SubmissionLimits;
  readonly policies: Pick<PolicyCache, 'known' | 'idOf'>;
  readonly jobLimits: Pick<LimitCache, 'known' | 'idOf'>;
  readonly callbackOrgs: Pick<CallbackOrgs, 'has' | 'ensure'>;
  readonly projects: Pick<ProjectCache, 'knows' | 'has'>;
  readonly catalogue: {
    readonly queueNames: QueueNames;
    limitOf(queue: string): JobLimit | undefined;
    ensureQueue(name: string): Promise<void>;
    /** Asks the ledger for a type that is not known. */
    learnType(type: string): Promise<void>;
  };
  /** The trace context of the code that submits a job without one. */
  readonly activeTrace?: (() => string | null) | undefined;
  readonly governance: Governance;
  /** The defaults that handlers of the type registered. */
  registrationOf(type: string): RegistrationPolicy | undefined;
  /** Whether a worker has ever registered the type. */
  knowsType(type: string): boolean;
};

const NO_TERMS: SubmissionTerms = Object.freeze({});

/**
 * Validates a submission, resolves its policy and assigns its id. Every door calls this for every job. It returns
 * no promise if the policy and the queue are known, which saves most callers a turn of the event loop.
 */
export function prepareSubmission(intake: Intake, request: SubmissionRequest): Prepared | Promise<Prepared> {
  const learning = learnType(intake, request.submission);
  return learning === undefined ? prepare(intake, request) : learning.then(() => prepare(intake, request));
}

function prepare(intake: Intake, request: SubmissionRequest): Prepared | Promise<Prepared> {
  const normalized = normalize(intake, request);
  if (!normalized.ok) return normalized;
  const { job, complete } = normalized;
  if (complete === undefined) return entryOf(intake, job, request);
  return complete().then((whole) => (whole.ok ? entryOf(intake, whole.job, request) : whole));
}

/** A governed job needs a type that is known. A worker may have registered it a moment ago, so the ledger is asked before a refusal. */
export function learnType(intake: Intake, submission: Submission): Promise<void> | undefined {
  const { category, type } = (submission ?? {}) as Partial<Submission>;
  if (!isCategoryName(category) || typeof type !== 'string' || intake.knowsType(type)) return undefined;
  return intake.catalogue.learnType(type);
}

type Asked = Pick<SubmissionRequest, 'orgId' | 'actor'>;

/** Assigns the id of a valid job. It returns a promise if the policy, the queue, the limit, the project or the callback is new. */
export function entryOf(intake: Intake, job: NewJob, { orgId, actor }: Asked): Prepared | Promise<Prepared> {
  const policyId = intake.policies.known(job.policy);
  const isNewCallback = job.callbackUrl !== null && !intake.callbackOrgs.has(orgId);
  const limitId = job.limit === undefined ? undefined : intake.jobLimits.known(orgId, job.limit);
  const isNewLimit = job.limit !== undefined && limitId === undefined;
  const projectId = job.envelope?.projectId ?? null;
  const isNewProject = projectId !== null && !intake.projects.knows(orgId, projectId);
  const isNew = policyId === undefined || isNewCallback || isNewLimit || isNewProject || !intake.catalogue.queueNames.has(job.queue);
  const entry = { id: newJobId(), orgId, job, policyId: policyId ?? 0, actor, limitId, placement: null };
  return isNew ? introduce(intake, entry, isNewProject ? projectId : null) : { ok: true, entry };
}

/** Writes a new policy, queue, limit or callback to the ledger. Submissions of one batch share these statements. */
async function introduce(intake: Intake, entry: JobToWrite, newProject: string | null): Promise<Prepared> {
  const { policies, jobLimits, catalogue, callbackOrgs, projects } = intake;
  if (newProject !== null && !(await projects.has(entry.orgId, newProject))) return { ok: false, issues: [unknownProject('projectId')] };
  const { policy, queue, limit, callbackUrl } = entry.job;
  const [policyId, limitId] = await Promise.all([
    policies.idOf(policy),
    limit === undefined ? undefined : jobLimits.idOf(entry.orgId, limit),
    catalogue.ensureQueue(queue),
  ]);
  if (callbackUrl !== null) await callbackOrgs.ensure(entry.orgId);
  return { ok: true, entry: { ...entry, policyId, limitId } };
}

/** Validates a submission and resolves its policy. */
export function normalize(intake: Intake, { orgId, submission: given, terms = NO_TERMS }: SubmissionRequest): NormalizedSubmission {
  const { catalogue, limits, activeTrace, governance } = intake;
  const submission = activeTrace === undefined ? given : withTrace(given, activeTrace);
  const { fingerprint, requestId, run } = terms;
  const hasOwnProfile = terms.profile !== undefined || typeof submission?.type !== 'string';
  const isGoverned = !hasOwnProfile && submission.category != null;
  const normalized = normalizeSubmission(submission, {
    nowMs: Date.now(),
    registration: hasOwnProfile ? undefined : intake.registrationOf(submission.type),
    governing: isGoverned ? { governance, orgId, knowsType: intake.knowsType(submission.type), run } : undefined,
    limits,
    profile: terms.profile ?? intake.profile,
    fingerprint,
    requestId,
    queues: terms.knownQueuesOnly ? catalogue.queueNames : undefined,
    // Jobs of the execution API and webhook deliveries have no limits.
    queueLimitOf: hasOwnProfile ? undefined : (queue) => catalogue.limitOf(queue),
  });
  if (!normalized.ok || terms.simulation === undefined || normalized.job.type !== SIMULATE_TYPE) return normalized;
  const issues = checkSimulation(submission.payload, terms.simulation);
  return issues.length > 0 ? { ok: false, issues } : normalized;
}

/** A submission that names no trace belongs to the one that is active. */
function withTrace(given: Submission, activeTrace: () => string | null): Submission {
  if (typeof given !== 'object' || given === null || given.traceparent != null) return given;
  const traceparent = activeTrace();
  return traceparent === null ? given : { ...given, traceparent };
}

const ID_BYTES = 16;
const pool = new BytePool(randomFillSync, ID_BYTES * 256);

const PREFIX_BYTES = 3;
const IDS_PER_PREFIX = 4_096;
const prefix = Buffer.alloc(PREFIX_BYTES);
let left = 0;

/**
 * Returns a version 4 id. Random bytes are drawn for 256 ids at a time. Some thousands of ids in a row share 24 random bits, so that they
 * are neighbours in the index on ids. The other 98 random bits distinguish them (decision 0015).
 */
function newJobId(): string {
  if (left === 0) {
    randomFillSync(prefix);
    left = IDS_PER_PREFIX;
  }
  const bytes = pool.take(ID_BYTES);
  left--;
  bytes.set(prefix);
  return uuidV4(bytes);
}
