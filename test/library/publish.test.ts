import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { Millrace } from '../../src/library/millrace.ts';
import { createOrg } from '../../src/services/access/create-org.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();

async function open(org?: string): Promise<Millrace> {
  const millrace = await Millrace.open({ database: ledger.db.url, org });
  onTestFinished(() => millrace.close());
  return millrace;
}

test('an instance publishes tasks for its own org, with all their members [C89]', async () => {
  const { id: orgId } = await createOrg(ledger.db, { slug: 'publishing' });
  const millrace = await open(orgId);
  const jobId = randomUUID();
  const headers = JSON.parse('{ "__proto__": "p", "X-A": "a" }');
  const task = { resourceId: 'constructor', url: 'https://example.com/', headers, tags: { t: '1' }, proxy: 'pool', storage: { key: 'k' } };
  expect(await millrace.publishTasks([task], { jobType: 'gallery', jobId, manifestKey: 'm' })).toEqual({ jobId, count: 1 });
  const { rows } = await ledger.db.api.query('SELECT * FROM millrace.task_intake WHERE job_id = $1', [jobId]);
  expect(rows).toMatchObject([
    { org_id: orgId, job_type: 'gallery', resource_id: 'constructor', url: 'https://example.com/', tags: { t: '1' }, proxy: 'pool' },
  ]);
  expect(Object.entries(rows[0].headers)).toEqual(
    expect.arrayContaining([
      ['__proto__', 'p'],
      ['X-A', 'a'],
    ]),
  );
  expect(rows[0]).toMatchObject({ storage: { key: 'k' }, manifest_key: 'm' });
});

test('wrong options are refused before anything is published, and a closed instance publishes nothing', async () => {
  const millrace = await open();
  const task = { resourceId: 'a', url: 'https://example.com/' };
  for (const options of [
    {},
    { jobType: '' },
    { jobType: 'x', jobId: '7' },
    { jobType: 'x', manifest: 'm' },
    { jobType: 'x', manifestKey: 1 },
  ]) {
    await expect(millrace.publishTasks([task], options as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  }
  const tooMany = Array.from({ length: 10_001 }, () => task);
  for (const tasks of [[], tooMany, [null], [{ url: 'x' }], [{ resourceId: 'a' }], [{ ...task, proxy: 1 }], 'tasks']) {
    await expect(millrace.publishTasks(tasks as never, { jobType: 'x' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  }
  await millrace.close();
  await expect(millrace.publishTasks([task], { jobType: 'x' })).rejects.toMatchObject({ code: 'CLOSED' });
});
