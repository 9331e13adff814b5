import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { historiesOfOrgs } from '../../src/ledger/reads/job-history.ts';
import { WorkerProcess } from '../engine/worker-process.ts';
import { until } from '../until.ts';
import { TestClient, useExecution } from './execution-fixture.ts';
import { at } from './execution-work.ts';

const server = useExecution();
const SCRIPT = fileURLToPath(new URL('./fixtures/execution-process.ts', import.meta.url));
const HOUR = 3_600_000;

async function child(options: object): Promise<{ process: WorkerProcess; url: string }> {
  const params = { url: server.ledger.db.url, org: JSON.stringify(options), script: SCRIPT };
  const process = await WorkerProcess.start(params);
  return { process, url: (await process.says('ready')).split(' ')[1] as string };
}

describe('when every process is killed', () => {
  it('no queued job is lost: the next process runs them all [FR-12.10] [FR-12.11]', async () => {
    await server.worker('none');
    const { process, url } = await child({ works: false });
    const client = (await server.client()).at(url);
    const ids = await Promise.all(Array.from({ length: 50 }, () => client.submit()));
    await process.kill();
    const again = new TestClient(server, { clientId: client.clientId, key: client.key });
    for (const id of ids) expect(await again.state(id)).toBe('QUEUED');
    await server.worker('start');
    for (const id of ids) await again.reached(id, 'SUCCEEDED');
  });

  it('the next process reports the jobs that were done [FR-19.05]', async () => {
    await server.worker('none');
    const first = await child({ timeScale: 0.01 });
    const client = (await server.client()).at(first.url);
    const id = await client.submit();
    const job = await client.reached(id, 'SUCCEEDED');
    const report = await client.report(id);
    await first.process.kill();
    const second = await child({ works: false });
    expect((await client.at(second.url).get(`/jobs/${id}`)).body).toEqual(job);
    expect(await client.at(second.url).report(id)).toEqual(report);
    expect(report).toMatchObject({ outcome: 'SUCCESS', events: expect.any(Array) });
  });
});

describe('a thousand jobs whose time comes while nothing runs', () => {
  it('are all queued at recovery, none before its time, none twice [FR-10.07] [FR-10.08] [FR-10.05]', async () => {
    await server.worker('none');
    const client = await server.client();
    const times = new Map<string, number>();
    for (let batch = 0; batch < 20; batch++) {
      await Promise.all(
        Array.from({ length: 50 }, async (_, n) => {
          const executionAt = at(HOUR + (batch * 50 + n) * 1_000);
          const id = await client.submit({ type: 'DEFERRED', execution_at: executionAt });
          times.set(id, Date.parse(executionAt));
        }),
      );
    }
    const later = await client.submit({ type: 'DEFERRED', execution_at: at(3 * HOUR) });
    await server.ledger.moveClock(2 * HOUR);
    const engine = await server.newEngine();
    await engine.start();
    const { orgId } = { orgId: client.clientId };
    const text = `SELECT count(*)::int4 AS live FROM millrace.jobs WHERE org_id = $1 AND state <> 'completed'`;
    await until('only the later job is left', async () => (await server.ledger.db.api.query(text, [orgId])).rows[0].live, 1);
    await engine.stop();
    expect(await client.state(later)).toBe('CREATED');
    const ids = [...times.keys()];
    const wanted = ids.map((id) => ({ orgId, projectId: null, id }));
    const histories = await historiesOfOrgs(server.ledger.db.api, wanted);
    expect(histories).toHaveLength(1_000);
    for (const [index, history] of histories.entries()) {
      const id = ids[index] as string;
      const steps = history.map(({ from, to }) => `${from}>${to}`);
      expect(steps).toEqual(['pending>delayed', 'delayed>scheduled', 'scheduled>running', 'running>completed']);
      const [, queued, started] = history;
      expect(queued?.at.getTime()).toBeGreaterThanOrEqual(times.get(id) as number);
      expect(started?.at.getTime()).toBeGreaterThanOrEqual(times.get(id) as number);
    }
    await server.ledger.moveClock(-2 * HOUR);
  });
});
