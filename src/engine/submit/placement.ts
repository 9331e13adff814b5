import { checkDependencies, cycleIssue, type JoinMode, MAX_DEPTH, resolveDependent } from '../../core/dependencies.ts';
import { AppError, type Issue } from '../../core/errors.ts';
import { inheritPriority } from '../../core/priority.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { leadsTo, lockJoins } from '../../ledger/jobs/find-cycle.ts';
import type { JobToWrite, Placement } from '../../ledger/jobs/job-to-write.ts';
import { type LockedDependency, lockDependencies } from '../../ledger/jobs/lock-dependencies.ts';

/** The entries of a write whose dependencies do not permit it. */
export class RefusedEntries extends AppError {
  readonly refused: ReadonlyMap<JobToWrite, readonly Issue[]>;

  constructor(refused: ReadonlyMap<JobToWrite, readonly Issue[]>) {
    super('INVALID_REQUEST', { details: [...refused.values()].flat() });
    this.refused = refused;
  }
}

/** The lease of the attempt that spawns a job. The child is written only while the lease is current. */
export type ParentLease = { orgId: string; seq: number; leaseSeq: number; workerId: number; join: JoinMode | null };

/**
 * Decides whether each entry must wait for its dependencies. It locks the dependencies with KEY SHARE until the transaction of `client`
 * ends. They cannot be removed in that time, but they can still complete. The releaser checks them again after the commit.
 */
export async function placeDependents(
  client: Queryable,
  entries: readonly JobToWrite[],
  ancestorIds: readonly string[] = [],
): Promise<void> {
  const dependents = entries.filter(({ job }) => job.dependsOn.length > 0);
  if (dependents.length > 0) await requireTransaction(client);
  for (const [orgId, ofOrg] of Map.groupBy(dependents, (entry) => entry.orgId)) {
    const ids = new Set(ofOrg.flatMap(({ job }) => job.dependsOn));
    const locked = await lockDependencies(client, { orgId, ids: [...ids] });
    const byId = new Map(locked.map((row) => [row.id, row]));
    placeAll(ofOrg, { byId, ancestorIds });
  }
}

type Surroundings = { byId: ReadonlyMap<string, LockedDependency>; ancestorIds: readonly string[] };

function placeAll(entries: readonly JobToWrite[], { byId, ancestorIds }: Surroundings): void {
  const refused = new Map<JobToWrite, readonly Issue[]>();
  /** How many of the entries so far depend on a job. */
  const added = new Map<string, number>();
  for (const entry of entries) {
    const { dependsOn, dependencyType } = entry.job;
    const locked = dependsOn.map((id) => byId.get(id)).filter((row) => row !== undefined);
    const found = locked.map((row) => ({
      ...row,
      dependents: row.dependents + (added.get(row.id) ?? 0),
      isAncestorHolding: ancestorIds.includes(row.id),
    }));
    const checked = checkDependencies({ requested: { ids: dependsOn }, found });
    if (!checked.ok) {
      refused.set(entry, checked.issues);
      continue;
    }
    for (const { id } of locked) added.set(id, (added.get(id) ?? 0) + 1);
    const resolution = resolveDependent(
      dependencyType,
      locked.map((row) => row.state),
    );
    entry.placement = placementOf(entry, locked, { depth: checked.depth, waits: resolution.kind !== 'proceed' });
  }
  if (refused.size > 0) throw new RefusedEntries(refused);
}

function placementOf(
  { job }: JobToWrite,
  locked: readonly LockedDependency[],
  { depth, waits }: { depth: number; waits: boolean },
): Placement {
  const priorities = locked.map((row) => row.priority);
  return {
    priority: inheritPriority(job.priority, priorities),
    depth,
    waits,
    parentSeq: null,
    joinsParent: false,
    dependsOnSeqs: locked.map((row) => row.seq),
  };
}

type ParentPlace = {
  parent: ParentLease;
  depth: number;
  priority: number;
  ancestorIds: readonly string[];
  joinedSeqs: readonly number[];
  inheritsPriority: boolean;
};

/** Places a spawned child below its parent and after its own dependencies. */
export async function placeChild(client: Queryable, entry: JobToWrite, place: ParentPlace): Promise<void> {
  const { parent } = place;
  await placeDependents(client, [entry], parent.join !== null ? place.ancestorIds : []);
  const placement = entry.placement ?? placementOf(entry, [], { depth: 0, waits: false });
  if (parent.join !== null) await refuseCycle(client, entry, { dependsOnSeqs: placement.dependsOnSeqs, ...place });
  const depth = Math.max(placement.depth, place.depth + 1);
  if (depth > MAX_DEPTH) throw refusal('spawn', 'DEPENDENCY_DEPTH', `Spawned jobs may be nested at most ${MAX_DEPTH} deep.`);
  const priority = place.inheritsPriority ? inheritPriority(place.priority, [placement.priority]) : placement.priority;
  entry.placement = { ...placement, priority, depth, parentSeq: parent.seq, joinsParent: parent.join !== null };
}

/** The parent waits for the child. So no job that the child waits for, directly or through others, may wait for the parent. */
async function refuseCycle(
  client: Queryable,
  entry: JobToWrite,
  { dependsOnSeqs, joinedSeqs }: { dependsOnSeqs: readonly number[]; joinedSeqs: readonly number[] },
): Promise<void> {
  if (dependsOnSeqs.length === 0) return;
  await lockJoins(client, entry.orgId);
  const isCycle = await leadsTo(client, { orgId: entry.orgId, from: dependsOnSeqs, to: joinedSeqs });
  if (isCycle) throw new RefusedEntries(new Map([[entry, [cycleIssue()]]]));
}

const refusal = (field: string, code: string, message: string) =>
  new AppError('INVALID_REQUEST', { message, details: [{ field, code, message }] });
