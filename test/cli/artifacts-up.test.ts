import { expect, test } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { folderWith, start } from './program.ts';

const ledger = useLedger();

const HANDLERS = `
export const handlers = {
  export: async (context) => context.artifacts.write('out.csv', 'a,b\\n', { contentType: 'text/csv' }),
};
`;

test('millrace up serves the files that handlers of modules wrote [AB-cat.19]', async () => {
  const cwd = folderWith({ 'handlers.mjs': HANDLERS });
  const up = start(['up', './handlers.mjs', '--json', '--port', '0'], { database: ledger.db.url, cwd });
  const [line] = await up.said(/.*"event":"up".*\n/);
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  const call = async (path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await fetch(`${url}/queue/v1${path}`, { ...init, headers });
    // biome-ignore lint/suspicious/noExplicitAny: the test looks at answers as they come
    return response.json() as Promise<any>;
  };
  const { job_id: jobId } = await call('/jobs', { method: 'POST', body: JSON.stringify({ type: 'export', payload: {} }) });
  const read = () => call(`/jobs/${jobId}?include_result=true`);
  await until('the job has completed', async () => (await read()).state === 'COMPLETED');
  const job = await read();
  expect(job.artifacts).toMatchObject([{ name: 'out.csv', size: 4, owner: { job_id: jobId } }]);
  const { url: link } = await call(`/artifacts/${job.artifacts[0].artifact_id}/link`, { method: 'POST', body: '{}' });
  const response = await fetch(link);
  expect([response.status, response.headers.get('content-type'), await response.text()]).toEqual([200, 'text/csv', 'a,b\n']);
});
