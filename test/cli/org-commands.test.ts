import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

type Org = { id: string; slug: string };

const newOrg = () => ask<Org>(['orgs', 'create', `org-${randomUUID()}`], here());

it('orgs are shown, renamed and deleted; a deletion needs the name or --yes [N05]', async () => {
  const { id, slug } = await newOrg();
  expect((await run(['orgs', 'show', id], here())).stdout).toContain(slug);
  const name = `new-${randomUUID()}`;
  expect(await ask<Org>(['orgs', 'rename', slug, name, '--reason', 'merged'], here())).toMatchObject({ id, slug: name });
  expect((await run(['orgs', 'rename', name, 'default'], here())).code).toBe(1);
  const unsure = await run(['orgs', 'delete', name], here());
  expect([unsure.code, unsure.stderr]).toEqual([2, expect.stringContaining(`--confirm ${name} or --yes`)]);
  expect((await run(['orgs', 'delete', name, '--confirm', 'other'], here())).code).toBe(2);
  expect((await run(['orgs', 'show', name], here())).code).toBe(0);
  const deleted = await ask(['orgs', 'delete', name, '--confirm', name, '--reason', 'ended'], here());
  expect(deleted).toEqual({ orgId: id, state: 'deleting' });
  for (const gone of [
    ['orgs', 'show', name],
    ['orgs', 'delete', name, '--yes'],
    ['keys', 'create', '--org', name],
  ])
    expect((await run(gone, here())).code).toBe(1);
  expect((await run(['orgs', 'list'], here())).stdout).not.toContain(name);
  expect((await run(['orgs', 'delete', 'default', '--yes'], here())).code).toBe(1);
  const { rows } = await ledger.db.api.query(`SELECT event, actor FROM ${ACTIONS} WHERE org_id = $1 ORDER BY id`, [id]);
  expect(rows).toEqual(['org.created', 'org.changed', 'org.deleted'].map((event) => ({ event, actor: 'user:operator' })));
});

it('projects are created, listed and renamed, and only those of the org can be named by a key [N05]', async () => {
  const [{ slug }, other] = [await newOrg(), await newOrg()];
  const project = await ask<{ id: string }>(['projects', 'create', 'billing', '--org', slug], here());
  expect((await run(['projects', 'create', 'billing', '--org', slug], here())).code).toBe(1);
  expect((await run(['projects', 'create', 'billing'], here())).code).toBe(2);
  expect(await ask(['projects', 'rename', project.id, 'invoices', '--org', slug], here())).toMatchObject({
    id: project.id,
    name: 'invoices',
  });
  expect((await run(['projects', 'rename', project.id, 'mine', '--org', other.slug], here())).code).toBe(1);
  expect((await run(['projects', 'list', '--org', slug], here())).stdout).toContain(`invoices  ${project.id}`);
  expect((await run(['projects', 'list', '--org', other.slug], here())).stdout).toContain('has no projects');
  expect((await run(['keys', 'create', '--org', other.slug, '--project', project.id], here())).code).toBe(1);
  expect(await ask(['keys', 'create', '--org', slug, '--project', project.id], here())).toMatchObject({ projectId: project.id });
});
