import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { type NamedStatement, namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import type { ListedOrg } from './orgs.ts';

const COLUMNS = 'id, slug, requests_per_minute AS "requestsPerMinute", max_running AS "maxRunning", created_at AS "createdAt"';
const IS_SHOWN = `id <> '${SYSTEM_ORG_ID}' AND deleting_at IS NULL`;

const GET = namedStatement<{ orgId: string }, ListedOrg>(
  'get_org',
  `SELECT ${COLUMNS} FROM millrace.orgs WHERE id = $orgId::uuid AND ${IS_SHOWN}`,
);

// The org of a key sees itself only. Null: every org.
const LIST = namedStatement<{ orgId: string | null; after: string; limit: number }, ListedOrg>(
  'list_org_page',
  `SELECT ${COLUMNS} FROM millrace.orgs WHERE ($orgId::uuid IS NULL OR id = $orgId::uuid) AND slug > $after AND ${IS_SHOWN}
   ORDER BY slug LIMIT $limit::int4`,
);

/** Members that are absent stay as they are. `sets` names the members that may become null. */
export type OrgChange = {
  readonly slug?: string | undefined;
  readonly requestsPerMinute?: number | null | undefined;
  readonly maxRunning?: number | null | undefined;
};

type ChangeParams = {
  orgId: string;
  slug: string | null;
  setsRate: boolean;
  rate: number | null;
  setsCap: boolean;
  cap: number | null;
};

const CHANGE: NamedStatement<ChangeParams, ListedOrg> = namedStatement(
  'change_org',
  `UPDATE millrace.orgs SET slug = coalesce($slug::text, slug),
     requests_per_minute = CASE WHEN $setsRate::boolean THEN $rate::int4 ELSE requests_per_minute END,
     max_running = CASE WHEN $setsCap::boolean THEN $cap::int4 ELSE max_running END
   WHERE id = $orgId::uuid AND ${IS_SHOWN} RETURNING ${COLUMNS}`,
);

const MARK = namedStatement<{ orgId: string; slug: string; actor: string }, { id: string }>(
  'mark_org_for_deletion',
  `UPDATE millrace.orgs SET deleting_at = millrace.clock(), deleting_by = $actor
   WHERE id = $orgId::uuid AND slug = $slug AND ${IS_SHOWN} RETURNING id`,
);

/** Null if there is no such org, if it is being deleted, or if it is Millrace's own. */
export async function getOrg(db: Queryable, orgId: string): Promise<ListedOrg | null> {
  return (await runNamed(db, GET, { orgId }))[0] ?? null;
}

/** In the order of their slugs, after this one. */
export async function listOrgPage(
  db: Queryable,
  { orgId, after, limit }: { orgId: string | null; after: string; limit: number },
): Promise<ListedOrg[]> {
  return runNamed(db, LIST, { orgId, after, limit });
}

/** Null if there is no such org. A slug that is taken violates a unique index. */
export async function changeOrg(db: Queryable, orgId: string, change: OrgChange): Promise<ListedOrg | null> {
  const { slug = null, requestsPerMinute, maxRunning } = change;
  const rows = await runNamed(db, CHANGE, {
    orgId,
    slug,
    setsRate: requestsPerMinute !== undefined,
    rate: requestsPerMinute ?? null,
    setsCap: maxRunning !== undefined,
    cap: maxRunning ?? null,
  });
  return rows[0] ?? null;
}

/** From now on the keys of the org are refused. Returns false if no org has this id and slug. */
export async function markOrgForDeletion(
  db: Queryable,
  { orgId, slug, actor }: { orgId: string; slug: string; actor: string },
): Promise<boolean> {
  return (await runNamed(db, MARK, { orgId, slug, actor })).length === 1;
}
