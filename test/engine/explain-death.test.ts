import { describe, expect, it } from 'vitest';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const sql = (text: string, values: unknown[] = []) => bench.ledger.db.api.query(text, values);

describe('explain', () => {
  it('names the worker that ended, and says when its jobs are taken over', async () => {
    const org = await bench.ledger.newOrg();
    const child = await WorkerProcess.start({ url: bench.ledger.db.url, org });
    const millrace = await bench.open({ org });
    const { jobId } = await millrace.submit({ type: 'steady', payload: {} });
    await child.says(`began ${jobId} 1`);
    expect((await millrace.explain(jobId))?.summary).toBe('It is running on child.');
    await child.kill();
    await until('the worker is reported as gone', async () => (await millrace.explain(jobId))?.obstacles[0]?.code, 'WORKER_GONE');
    const told = await millrace.explain(jobId);
    expect(told?.summary).toMatch(/^Worker child stopped responding \d+ s ago\. Other workers take over its jobs in about \d s\.$/);
  });

  it('says of a worker without a lock how long its lease still lasts', async () => {
    const org = await bench.ledger.newOrg();
    const millrace = await bench.open({ org });
    const worker = await bench.ledger.registerWorker('w1');
    await sql('UPDATE millrace.workers SET beat_ms = 5000 WHERE id = $1', [worker]);
    const job = await bench.ledger.start(await bench.ledger.submitOne({ orgId: org, policy: { leaseMs: 300_000 } }), worker);
    expect((await millrace.explain(job.id))?.summary).toBe('It is running on w1.');
    await sql(`UPDATE millrace.workers SET beat_at = millrace.clock() - interval '60 s' WHERE id = $1`, [worker]);
    expect((await millrace.explain(job.id))?.summary).toMatch(
      /^Worker w1 sent its last heartbeat 6\d s ago: it may be frozen or disconnected\. Other workers take over its jobs in about \d+ min unless/,
    );
    await sql('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [worker]);
    expect((await millrace.explain(job.id))?.summary).toBe('Worker w1 has stopped. Other workers will take over its jobs shortly.');
  });
});
