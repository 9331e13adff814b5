import { AppError } from '../../core/errors.ts';
import { type Policy, PROFILES } from '../../core/policy.ts';
import type { StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import type { EventHub } from '../events.ts';
import type { KnownOrgs } from './known-orgs.ts';
import type { HandlerRegistry, RegisteredHandler } from './registry.ts';

const RETRY_MS = 500;

export type RunnableParams = {
  policies: PolicyCache;
  registry: HandlerRegistry;
  orgs: KnownOrgs;
  events: EventHub;
  isStopped(): boolean;
};

/** The errors of policies that cannot be read, by their number. */
type Unreadable = ReadonlyMap<number, Error>;

const NONE: Unreadable = new Map();

/** What `runnableOf` needs. */
export type Known = Pick<RunnableParams, 'policies' | 'registry' | 'orgs'> & { unreadable: Unreadable };

/** Reads the policies and the orgs of claimed jobs that this process does not know. It returns no promise if it knows all of them. */
export function readUnknown(jobs: readonly StartedJob[], params: RunnableParams): Known | Promise<Known> {
  const { policies, registry, orgs } = params;
  const areKnown = orgs.knowsAll(jobs) && jobs.every(({ policyId }) => policies.cached(policyId) !== undefined);
  const knowing = (unreadable: Unreadable): Known => ({ policies, registry, orgs, unreadable });
  return areKnown ? knowing(NONE) : read(jobs, params).then(knowing);
}

async function read(jobs: readonly StartedJob[], params: RunnableParams): Promise<Unreadable> {
  const unreadable = new Map<number, Error>();
  await params.orgs.learn(jobs, params.isStopped);
  for (const policyId of new Set(jobs.map((job) => job.policyId))) {
    const policy = params.policies.cached(policyId) ?? (await loadPolicy(params.policies, policyId, params));
    if (policy instanceof Error) unreadable.set(policyId, policy);
  }
  return unreadable;
}

/** Retries until the database responds, because no other worker can run the job. Returns an error that will not pass. */
async function loadPolicy(
  policies: PolicyCache,
  policyId: number,
  { events, isStopped }: { events: EventHub; isStopped(): boolean },
): Promise<Policy | Error> {
  for (;;) {
    try {
      return await policies.policyOf(policyId);
    } catch (error) {
      events.emit('error', { error, where: 'worker' });
      if (!isPassing(error) || isStopped()) return error as Error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * RETRY_MS));
    }
  }
}

/** Decides the outcome of a job whose policy cannot be read. */
const FALLBACK_POLICY: Policy = PROFILES.gopherqueue;

/**
 * Returns the policy and the handler of a claimed job. A job that cannot run gets a handler that fails with the reason, so that its
 * attempt ends like any other and the history shows why.
 */
export function runnableOf(
  { jobType, policyId, orgId }: StartedJob,
  { policies, registry, orgs, unreadable }: Known,
): { policy: Policy; registered: RegisteredHandler } {
  const policy = policies.cached(policyId);
  if (policy === undefined) return { policy: FALLBACK_POLICY, registered: failing(jobType, unreadable.get(policyId) ?? notRead(policyId)) };
  const refusal = orgs.refusalOf(orgId);
  if (refusal !== null) return { policy, registered: failing(jobType, refusal) };
  return { policy, registered: registry.get(jobType) ?? failing(jobType, unknownType(jobType)) };
}

const unknownType = (jobType: string): Error =>
  new AppError('UNKNOWN_TYPE', { message: `Claimed a job of type ${jobType}, but this process has no handler for it.` });

const notRead = (policyId: number): Error => new Error(`Policy ${policyId} was not read.`);

const failing = (type: string, error: Error): RegisteredHandler => ({
  type,
  handler: () => Promise.reject(error),
  layer: { hasCustomBackoff: false },
  concurrency: null,
  customBackoff: undefined,
  schema: undefined,
  fanIn: null,
  cancelsCooperatively: false,
  orgs: null,
  assignments: undefined,
});
