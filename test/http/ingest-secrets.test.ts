import { expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { readJob, readJobView } from '../../src/services/jobs/read-job.ts';
import { searchJobViews } from '../../src/services/jobs/search-jobs.ts';
import { waitForJob } from '../../src/services/jobs/wait-for-job.ts';
import { run } from '../cli/program.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();

const SECRETS = ['hunter2', 'opensesame', 'swordfish', 'letmein'];
const HEADERS = { Authorization: 'Bearer hunter2', cookie: 'sid=opensesame', 'X-Api-Key': 'swordfish', Referer: 'https://example.com' };

/** Submits one resource with secrets in its headers and its URL. The server of the file notes what it gets. */
async function submitted(status: number) {
  const got: Record<string, unknown>[] = [];
  const file = server.origin.file((request, response) => {
    got.push(request.headers);
    response.writeHead(status).end('hello');
  });
  const url = `${file}?token=letmein&page=1`;
  const jobId = await server.accepted({ resources: [{ id: 'a', url, headers: HEADERS }] });
  const { org_id: orgId } = await server.reached(jobId, 'completed', 'failed');
  const [{ task_id: taskId }] = (await server.get(`/jobs/${jobId}/resources`)).body.items;
  return { jobId, orgId, taskId, got };
}

const secretsIn = (shown: unknown): string[] => SECRETS.filter((secret) => JSON.stringify(shown).includes(secret));

test.each([200, 404])('secret headers are sent, and no read of a job with the answer %i shows them [C91]', async (status) => {
  const { jobId, orgId, taskId, got } = await submitted(status);
  expect(got).toMatchObject([{ authorization: 'Bearer hunter2', cookie: 'sid=opensesame', 'x-api-key': 'swordfish' }]);
  const { engine } = server.platform;
  const owner = wholeOrg(orgId);
  const read = { ...owner, id: taskId, includeResult: true, includeHistory: true };
  const view = await readJobView(engine, read);
  expect(view?.payload).toMatchObject({
    url: expect.stringMatching(/\?token=%5Bmasked%5D&page=1$/),
    headers: [
      ['Authorization', '[masked]'],
      ['cookie', '[masked]'],
      ['X-Api-Key', '[masked]'],
      ['Referer', 'https://example.com'],
    ],
  });
  const searched = await searchJobViews(engine, { ...owner, filter: { types: ['fetchbox.fetch'] }, page: { limit: 10 } });
  expect(searched.jobs.length).toBeGreaterThan(0);
  const waited = await waitForJob(engine, { ...owner, id: taskId, timeoutMs: null });
  await until('the job is settled', async () => (await server.get(`/jobs/${jobId}/logs`)).body.at(-1).event.startsWith('job.'));
  const streams = await server.database.maintenance.query('SELECT body FROM millrace.stream_entries WHERE job_id = $1', [jobId]);
  expect(streams.rows.length).toBeGreaterThan(3);
  const shown = {
    view,
    report: await readJob(engine, read),
    searched,
    waited,
    streams: streams.rows,
    job: (await server.get(`/jobs/${jobId}`)).body,
    resources: (await server.get(`/jobs/${jobId}/resources`)).body,
    logs: (await server.get(`/jobs/${jobId}/logs`)).body,
  };
  for (const [name, part] of Object.entries(shown)) expect([name, secretsIn(part)]).toEqual([name, []]);
});

test('the command line shows no secret header, in a job, in a list and in an export [C91]', async () => {
  const { taskId, orgId } = await submitted(200);
  const { rows } = await server.database.api.query('SELECT slug FROM millrace.orgs WHERE id = $1', [orgId]);
  const here = { cwd: server.folder, database: server.databaseUrl };
  for (const args of [
    ['jobs', 'get', taskId, '--json'],
    ['jobs', 'get', taskId],
    ['jobs', 'list', '--json', '--org', rows[0].slug],
    ['export'],
  ]) {
    const { code, stdout, stderr } = await run(args, here);
    expect([args, code, stderr === '' || args[0] === 'export', stdout.length > 0]).toEqual([args, 0, true, true]);
    expect([args, secretsIn(stdout)]).toEqual([args, []]);
  }
});
