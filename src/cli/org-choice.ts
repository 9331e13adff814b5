import { AppError } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { jobOwners } from '../ledger/reads/job-owners.ts';
import { findOrgByName, listOrgs, type Org, orgsWithJobs } from '../services/access/list-orgs.ts';
import type { ValuesOf } from './command.ts';
import { UsageError } from './usage-error.ts';

const DEFAULT_ORG = 'default';

export const ONE_ORG_OPTION = {
  org: { type: 'string', value: 'NAME|ID', help: 'the org, by its slug or its id; default: the org "default"' },
} as const;

export const ORG_OPTIONS = {
  ...ONE_ORG_OPTION,
  'all-orgs': { type: 'boolean', help: 'every org that has jobs' },
} as const;

type Values = ValuesOf<typeof ORG_OPTIONS>;

export function checkOrgOptions({ org, 'all-orgs': all }: Values): void {
  if (org !== undefined && all === true) throw new UsageError('Give --org or --all-orgs, but not both.');
}

/** The org that a command acts for. */
export const chosenOrg = (engine: Engine, { org }: ValuesOf<typeof ONE_ORG_OPTION>): Promise<Org> =>
  findOrgByName(engine.database, org ?? DEFAULT_ORG);

/** The orgs that a command acts for, in the order of their slugs. */
export async function chosenOrgs(engine: Engine, values: Values): Promise<Org[]> {
  if (values['all-orgs'] === true) return orgsWithJobs(engine.database);
  return [await chosenOrg(engine, values)];
}

/** The owner of each job, in the order of the ids. Throws NOT_FOUND for a job of another org, and says which org has it. */
export async function ownersOf(engine: Engine, values: Values, ids: readonly string[]): Promise<{ id: string; org: Org }[]> {
  const found = await findOwners(engine, values, ids);
  return found.map(({ id, org, message }) => {
    if (org === null) throw new AppError('NOT_FOUND', { message });
    return { id, org };
  });
}

type Owned = { id: string; org: Org | null; message: string };

/** Like `ownersOf`, but returns null and the reason for a job that the chosen orgs do not have. */
export async function findOwners(engine: Engine, values: Values, ids: readonly string[]): Promise<Owned[]> {
  const chosen = values['all-orgs'] === true ? null : await chosenOrg(engine, values);
  const owners = await jobOwners(engine.database.api, ids);
  const orgs = new Map((await listOrgs(engine.database)).map((org) => [org.id, org]));
  return ids.map((id) => {
    const org = orgs.get(owners.get(id.toLowerCase()) ?? '') ?? null;
    if (org === null) return { id, org, message: `There is no job ${id}` };
    if (chosen === null || chosen.id === org.id) return { id, org, message: '' };
    const message = `The org ${chosen.slug} has no job ${id}. It belongs to the org ${org.slug}: use --org ${org.slug} or --all-orgs.`;
    return { id, org: null, message };
  });
}
