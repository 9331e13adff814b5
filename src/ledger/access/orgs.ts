import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

export const DEFAULT_ORG_ID = '00000000-0000-4000-8000-000000000000';

const CREATE = statement(
  'create_org',
  `INSERT INTO millrace.orgs (id, slug, created_at) VALUES ($1::uuid, $2, millrace.clock())
   ON CONFLICT DO NOTHING RETURNING id`,
);

const FIND = statement(
  'find_org',
  'SELECT id, slug, requests_per_minute AS "requestsPerMinute" FROM millrace.orgs WHERE slug = $1 AND deleting_at IS NULL',
);

const LIST = statement(
  'list_orgs',
  `SELECT id, slug, requests_per_minute AS "requestsPerMinute", max_running AS "maxRunning", created_at AS "createdAt"
   FROM millrace.orgs WHERE id <> '${SYSTEM_ORG_ID}' AND deleting_at IS NULL ORDER BY slug`,
);

// Reads one entry of the index for each org, and not one for each job.
const WITH_JOBS = statement(
  'list_orgs_with_jobs',
  `WITH RECURSIVE owners AS (
     (SELECT org_id FROM millrace.jobs ORDER BY org_id LIMIT 1)
     UNION ALL SELECT (SELECT j.org_id FROM millrace.jobs j WHERE j.org_id > o.org_id ORDER BY j.org_id LIMIT 1) FROM owners o
       WHERE o.org_id IS NOT NULL
   )
   SELECT o.id, o.slug, o.requests_per_minute AS "requestsPerMinute" FROM owners w JOIN millrace.orgs o ON o.id = w.org_id
   WHERE o.id <> '${SYSTEM_ORG_ID}' ORDER BY o.slug`,
);

const SET_CAP = statement('set_org_cap', 'UPDATE millrace.orgs SET max_running = $2::int4 WHERE id = $1::uuid RETURNING id');

const SET_RATE = statement('set_org_rate', 'UPDATE millrace.orgs SET requests_per_minute = $2::int4 WHERE id = $1::uuid RETURNING id');

const SUMMARY = statement(
  'summarize_orgs',
  `SELECT EXISTS (SELECT FROM millrace.orgs WHERE max_running IS NOT NULL) AS "areCapped",
     (SELECT count(*) > 1 FROM (SELECT FROM millrace.orgs WHERE id <> '${SYSTEM_ORG_ID}' LIMIT 2) o) AS "areSeveral"`,
);

/** Returns false if the id or the slug is taken. */
export async function createOrg(db: Queryable, { id, slug }: { id: string; slug: string }): Promise<boolean> {
  return (await run(db, CREATE, [id, slug])).length === 1;
}

/** `requestsPerMinute` is null if the configured limit applies. */
export type Org = { id: string; slug: string; requestsPerMinute: number | null };

export async function findOrg(db: Queryable, slug: string): Promise<Org | null> {
  return (await run<Org>(db, FIND, [slug]))[0] ?? null;
}

export type ListedOrg = Org & { maxRunning: number | null; createdAt: Date };

/** All orgs except Millrace's own. */
export async function listOrgs(db: Queryable): Promise<ListedOrg[]> {
  return run<ListedOrg>(db, LIST);
}

/** The orgs that have jobs, except Millrace's own. */
export async function orgsWithJobs(db: Queryable): Promise<Org[]> {
  return run<Org>(db, WITH_JOBS);
}

/** Bounds how many jobs of the org run at the same time over all workers; null removes the bound. Returns false if the org does not exist. */
export async function setOrgCap(db: Queryable, orgId: string, maxRunning: number | null): Promise<boolean> {
  return (await run(db, SET_CAP, [orgId, maxRunning])).length === 1;
}

/** Applies from the next block of permits on; null restores the configured limit. Returns false if the org does not exist. */
export async function setOrgRate(db: Queryable, orgId: string, requestsPerMinute: number | null): Promise<boolean> {
  return (await run(db, SET_RATE, [orgId, requestsPerMinute])).length === 1;
}

export type OrgSummary = {
  /** Some org has a cap, so claims must count running jobs. */
  areCapped: boolean;
  /** Millrace's own org does not count. */
  areSeveral: boolean;
};

export async function summarizeOrgs(db: Queryable): Promise<OrgSummary> {
  const [summary] = await run<OrgSummary>(db, SUMMARY);
  return summary as OrgSummary;
}
