import { expect, test } from 'vitest';
import { eraseIngestObjects } from '../../src/services/maintenance/erase-objects.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { askToDelete, endGrace, erase, isErased, rowsOf, step } from '../services/erasure.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();

const query = async (text: string, values: unknown[] = []) => (await server.database.maintenance.query(text, values)).rows;
const parts = () => ({
  engine: server.platform.engine,
  store: server.platform.ingest.store,
  settings: server.platform.ingest.context.settings,
});
const objects = [(erasure: { orgId: string; isGraceOver: boolean }) => eraseIngestObjects(parts(), erasure)];

async function orgOf(jobId: string): Promise<string> {
  return (await query('SELECT org_id FROM millrace.ingest_jobs WHERE id = $1', [jobId]))[0].org_id;
}

test('the objects of an org go with it, also those whose tasks are forgotten, and those of others stay [N54]', async () => {
  const send = (tenant: string) =>
    server.accepted({
      headers: { 'x-fetchbox-tenant': tenant },
      resources: ['a', '../b', '__proto__'].map((id) => ({ id, url: server.origin.file() })),
    });
  const [old, young, other] = [await send('leaver'), await send('leaver'), await send('stayer')];
  for (const id of [old, young, other]) await server.reached(id, 'completed');
  await query('DELETE FROM millrace.jobs WHERE id IN (SELECT task_id FROM millrace.ingest_resources WHERE job_id = $1)', [old]);
  const keysOf = (id: string) => server.objects('fetchbox').filter((key) => key.includes(id));
  expect([old, young, other].map((id) => keysOf(id).length)).toEqual([5, 5, 5]);
  const orgId = await orgOf(old);
  await askToDelete(server.database, orgId);
  await erase(server.platform.engine, orgId, objects);
  expect([old, young, other].map((id) => keysOf(id).length)).toEqual([0, 0, 5]);
  expect([...(await rowsOf(server.database, orgId)).keys()]).toEqual(['audit_actions', 'org_erasures']);
  const [{ details }] = await query(`SELECT details FROM ${ACTIONS} WHERE org_id = $1 AND event = 'org.erased'`, [orgId]);
  expect(details).toMatchObject({ objects: 10 });
  expect((await server.get(`/jobs/${old}`)).status).toBe(404);
});

test('a download that runs is asked to stop before its objects go, and leaves none behind', async () => {
  let isAsked = false;
  let isAborted = false;
  const url = server.origin.file((request, response) => {
    isAsked = true;
    response.write('beginning');
    request.on('close', () => (isAborted = true));
  });
  const waits = server.origin.file();
  const resources = [{ id: 'slow', url }, ...Array.from({ length: 20 }, (_, n) => ({ id: `${n}`, url: waits }))];
  const jobId = await server.accepted({ headers: { 'x-fetchbox-tenant': 'busy' }, resources });
  await until('it runs', async () => isAsked && (await server.get(`/jobs/${jobId}`)).body.status === 'in_progress');
  const orgId = await orgOf(jobId);
  await askToDelete(server.database, orgId);
  await until('the download has stopped', async () => {
    await step(server.platform.engine, objects);
    return isAborted;
  });
  await endGrace(server.database, orgId);
  await erase(server.platform.engine, orgId, objects);
  expect(server.objects('fetchbox').filter((key) => key.includes(jobId))).toEqual([]);
  expect(await isErased(server.database, orgId)).toBe(true);
});

test('the task deletes an org by itself, as a job', async () => {
  const orgId = await orgOf(
    await server.accepted({ headers: { 'x-fetchbox-tenant': 'soon gone' }, resources: [{ id: 'a', url: server.origin.file() }] }),
  );
  await askToDelete(server.database, orgId);
  await until('the org is erased', async () => {
    const { status } = await server.operate('POST', '/maintenance/deleted_orgs/run');
    expect(status).toBeOneOf([202, 409]);
    return isErased(server.database, orgId);
  });
  expect(await query('SELECT FROM millrace.orgs WHERE id = $1', [orgId])).toEqual([]);
});
