import { checkDependencies, cycleIssue, MAX_DEPTH, resolveDependent } from '../core/dependencies.ts';
import { AppError, type Issue } from '../core/errors.ts';
import { inheritPriority } from '../core/priority.ts';
import { leadsTo } from '../ledger/find-cycle.ts';
import type { JobToWrite, Placement } from '../ledger/job-to-write.ts';
import { type LockedDependency, lockDependencies } from '../ledger/lock-dependencies.ts';
import { queueReleases } from '../ledger/queue-releases.ts';
import type { Queryable } from '../ledger/statement.ts';

/** Of several jobs to be written together, those whose dependencies do not permit it. */
export class RefusedEntries extends AppError {
  readonly refused: ReadonlyMap<JobToWrite, readonly Issue[]>;

  constructor(refused: ReadonlyMap<JobToWrite, readonly Issue[]>) {
    super('INVALID_REQUEST', { details: [...refused.values()].flat() });
    this.refused = refused;
  }
}

/** The attempt that spawns a job: the child is written only while it still holds its lease. */
export type ParentLease = { orgId: string; seq: number; leaseSeq: number; workerId: number; join: boolean };

/** Finds the jobs that others depend on, locks them against ending meanwhile, and decides what each of the others waits for. */
export async function placeDependents(
  client: Queryable,
  entries: readonly JobToWrite[],
  ancestorIds: readonly string[] = [],
): Promise<void> {
  const dependents = entries.filter(({ job }) => job.dependsOn.length > 0);
  for (const [orgId, ofOrg] of Map.groupBy(dependents, (entry) => entry.orgId)) {
    // All in one statement, which locks in one order: two batches that name the same jobs never wait for each other in a ring.
    const ids = new Set(ofOrg.flatMap(({ job }) => job.dependsOn));
    const locked = await lockDependencies(client, { orgId, ids: [...ids] });
    const byId = new Map(locked.map((row) => [row.id, row]));
    await placeAll(client, ofOrg, { byId, ancestorIds });
  }
}

type Surroundings = { byId: ReadonlyMap<string, LockedDependency>; ancestorIds: readonly string[] };

async function placeAll(client: Queryable, entries: readonly JobToWrite[], { byId, ancestorIds }: Surroundings) {
  const refused = new Map<JobToWrite, readonly Issue[]>();
  const endedBadly = new Set<number>();
  for (const entry of entries) {
    const { dependsOn, dependencyType } = entry.job;
    const locked = dependsOn.map((id) => byId.get(id)).filter((row) => row !== undefined);
    const found = locked.map((row) => ({ ...row, isAncestorHolding: ancestorIds.includes(row.id) }));
    const checked = checkDependencies({ requested: { ids: dependsOn }, found });
    if (!checked.ok) {
      refused.set(entry, checked.issues);
      continue;
    }
    const resolution = resolveDependent(
      dependencyType,
      locked.map((row) => row.state),
    );
    entry.placement = placementOf(entry, locked, { depth: checked.depth, waits: resolution.kind !== 'proceed' });
    if (resolution.kind === 'end') for (const { seq } of locked) endedBadly.add(seq);
  }
  if (refused.size > 0) throw new RefusedEntries(refused);
  // Dependencies that ended badly before these jobs came will not end again: have the releaser look at them once more.
  const orgId = entries[0]?.orgId;
  if (orgId !== undefined && endedBadly.size > 0) await queueReleases(client, { orgId, seqs: [...endedBadly] });
}

function placementOf(
  { job }: JobToWrite,
  locked: readonly LockedDependency[],
  { depth, waits }: { depth: number; waits: boolean },
): Placement {
  const priorities = locked.map((row) => row.priority);
  return {
    ...{ priority: inheritPriority(job.priority, priorities), depth, waits },
    ...{ parentSeq: null, joinsParent: false, dependsOnSeqs: locked.map((row) => row.seq) },
  };
}

type ParentPlace = {
  parent: ParentLease;
  depth: number;
  priority: number;
  ancestorIds: readonly string[];
  awaitedSeqs: readonly number[];
  inheritsPriority: boolean;
};

/** Places a child that its parent spawns, below it and after its own dependencies. */
export async function placeChild(client: Queryable, entry: JobToWrite, place: ParentPlace): Promise<void> {
  const { parent } = place;
  await placeDependents(client, [entry], parent.join ? place.ancestorIds : []);
  const placement = entry.placement ?? placementOf(entry, [], { depth: 0, waits: false });
  if (parent.join) await refuseCycle(client, entry, { dependsOnSeqs: placement.dependsOnSeqs, ...place });
  const depth = Math.max(placement.depth, place.depth + 1);
  if (depth > MAX_DEPTH) throw refusal('spawn', 'DEPENDENCY_DEPTH', `Children may be nested ${MAX_DEPTH} deep.`);
  const priority = place.inheritsPriority ? inheritPriority(place.priority, [placement.priority]) : placement.priority;
  entry.placement = { ...placement, priority, depth, parentSeq: parent.seq, joinsParent: parent.join };
}

/** Its parent waits for the child. What the child waits for must not wait for the parent, however many jobs lie between. */
async function refuseCycle(
  client: Queryable,
  entry: JobToWrite,
  { dependsOnSeqs, awaitedSeqs }: { dependsOnSeqs: readonly number[]; awaitedSeqs: readonly number[] },
): Promise<void> {
  if (dependsOnSeqs.length === 0 || awaitedSeqs.length === 0) return;
  const isCycle = await leadsTo(client, { orgId: entry.orgId, from: dependsOnSeqs, to: awaitedSeqs });
  if (isCycle) throw new RefusedEntries(new Map([[entry, [cycleIssue()]]]));
}

const refusal = (field: string, code: string, message: string) =>
  new AppError('INVALID_REQUEST', { message, details: [{ field, code, message }] });
