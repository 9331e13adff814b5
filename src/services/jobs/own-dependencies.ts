import { missingDependency } from '../../core/dependencies.ts';
import type { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { getJobsOfOrgs } from '../../ledger/reads/get-job.ts';
import { invalidSubmission } from './submission-result.ts';

const IDS_PER_READ = 1_000;

/** A submission before its validation. */
type Given = { readonly dependsOn?: unknown };

/**
 * Refuses submissions of one project that depend on jobs outside of it, as if those did not exist. Returns the errors by index. The
 * check may come before the write, because no job changes its project. For a whole org, the ledger finds jobs of the org only.
 */
export async function refuseForeignDependencies(
  engine: Engine,
  owner: Owner,
  submissions: readonly Given[],
): Promise<ReadonlyMap<number, AppError>> {
  const refused = new Map<number, AppError>();
  if (owner.projectId === null) return refused;
  const named = submissions.map(dependenciesOf);
  const found = await reached(engine, owner, [...new Set(named.flat())]);
  for (const [index, ids] of named.entries()) {
    const foreign = ids.filter((id) => !found.has(id));
    if (foreign.length > 0) refused.set(index, invalidSubmission(foreign.map(missingDependency)));
  }
  return refused;
}

function dependenciesOf(submission: Given | null): string[] {
  const given = submission?.dependsOn;
  return Array.isArray(given) ? [...new Set(given.filter(isUuid).map((id) => id.toLowerCase()))] : [];
}

async function reached(engine: Engine, owner: Owner, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (let start = 0; start < ids.length; start += IDS_PER_READ) {
    const wanted = ids.slice(start, start + IDS_PER_READ).map((id) => ({ ...owner, id }));
    for (const job of await getJobsOfOrgs(engine.database.reads.of(owner.orgId), wanted)) if (job !== null) found.add(job.id);
  }
  return found;
}
