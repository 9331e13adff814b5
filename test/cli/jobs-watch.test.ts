import { describe, expect, it } from 'vitest';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

describe('jobs watch', () => {
  it('prints what happens to a job until it has ended', async () => {
    const job = await ledger.submitOne({ orgId: DEFAULT_ORG_ID, type: 'watch.one' });
    const watch = start(['jobs', 'watch', job.id], here());
    await watch.said(new RegExp(`default  watch\\.one  ${job.id}  scheduled  submitted\n`));
    const running = await ledger.start(job);
    await watch.said(/ {2}running {2}started\n/);
    await ledger.db.api.query(
      `INSERT INTO millrace.progress (org_id, seq, percent, message, updated_at) VALUES ($1, $2, 40, $3, millrace.clock())`,
      [job.orgId, job.seq, 'half\u001b[2J way'],
    );
    await watch.said(/ {2}40 % half\\u001b\[2J way\n/);
    await ledger.settle(running, { to: 'completed', reason: 'succeeded' });
    expect(await watch.ended).toMatchObject({ code: 0, stderr: '' });
    expect(watch.stdout).toMatch(/ {2}completed {2}succeeded\nAll have ended: 1 completed\.\n$/);
  });

  it('follows the jobs of a filter in all orgs, and ends with 1 if one did not complete', async () => {
    const type = 'watch.many';
    const [first, second] = [await ledger.newOrg(), await ledger.newOrg()];
    const [good, bad] = [await ledger.submitOne({ orgId: first, type }), await ledger.submitOne({ orgId: second, type: `${type}.bad` })];
    const args = ['jobs', 'watch', '--all-orgs', '--type', `${type},${type}.bad`, '--state', 'scheduled', '--json'];
    const watch = start(args, here());
    for (const { id } of [good, bad]) await watch.said(new RegExp(`"jobId":"${id}".*"to":"scheduled"`));
    await ledger.settle(await ledger.start(good), { to: 'completed', reason: 'succeeded' });
    const failure = { category: 'PERMANENT', code: 'BOOM', message: 'it broke' } as const;
    await ledger.settle(await ledger.start(bad), { to: 'failed', reason: 'permanent_failure', failure: JSON.stringify(failure) });
    const { code, stdout } = await watch.ended;
    expect(code).toBe(1);
    const events = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events).toContainEqual(expect.objectContaining({ event: 'state', jobId: good.id, to: 'running', attempt: 1 }));
    expect(events).toContainEqual(expect.objectContaining({ jobId: bad.id, to: 'failed', failure: expect.objectContaining(failure) }));
    expect(events.at(-1)).toEqual({ event: 'ended', jobs: 2, states: { completed: 1, failed: 1 } });
  });

  it('leaves cleanly when it is interrupted, and does not touch the job', async () => {
    const job = await ledger.putJob('scheduled', { orgId: DEFAULT_ORG_ID });
    const watch = start(['jobs', 'watch', job.id], here());
    await watch.said(/scheduled/);
    watch.kill('SIGINT');
    expect(await watch.ended).toMatchObject({ code: 130, stderr: '' });
    expect(watch.stdout).toMatch(/Stopped watching\. 1 of the jobs had not ended\.\n$/);
    expect(await ledger.stateOf(job)).toBe('scheduled');
  });

  it('refuses to follow every job there is', async () => {
    const { code, stderr } = await run(['jobs', 'watch'], here());
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('No job is named. Give ids, or --state, --type or --tag.'),
    });
  });
});

describe('jobs logs', () => {
  it('shows states, workers, failures and progress in the order of time, with nothing that a terminal obeys', async () => {
    const orgId = await ledger.newOrg();
    const job = await ledger.submitOne({ orgId, type: 'logs.one', policy: { maxAttempts: 2 } });
    const message = 'it broke\u001b]0;owned\u0007\nand forged a line';
    const failure = { category: 'TEMPORARY', code: 'BOOM', message, stackTrace: 'Error: it broke\n    at work (file.js:1:2)' } as const;
    await ledger.settle(await ledger.start(job), {
      to: 'retrying',
      reason: 'temporary_failure',
      delayMs: 3_600_000,
      failure: JSON.stringify(failure),
    });
    await ledger.db.api.query(
      `INSERT INTO millrace.progress (org_id, seq, percent, message, updated_at) VALUES ($1, $2, 70, 'nearly', millrace.clock())`,
      [orgId, job.seq],
    );
    const { code, stdout } = await run(['jobs', 'logs', job.id, '--all-orgs'], here());
    expect(code).toBe(0);
    const at = '\\d{4}-\\S+Z  ';
    expect(stdout).toMatch(
      new RegExp(
        [
          `^Job ${job.id} of type logs\\.one is retrying\\.`,
          `${at}scheduled  submitted`,
          `${at}running    started, attempt 1, on worker \\(host-1\\)`,
          `${at}retrying   temporary_failure, attempt 1, TEMPORARY BOOM: it broke\\\\u001b\\]0;owned\\\\u0007\\\\nand forged a line`,
          ' {4}Error: it broke',
          ' {4}at work \\(file\\.js:1:2\\)',
          `${at}progress   attempt 1: 70 % nearly\n$`,
        ].join('\n'),
      ),
    );
    const { entries } = await ask<{ entries: object[] }>(['jobs', 'logs', job.id, '--all-orgs'], here());
    expect(entries).toMatchObject([
      { kind: 'state', to: 'scheduled', worker: null, failure: null },
      { kind: 'state', to: 'running', worker: 'worker', host: 'host-1' },
      { kind: 'state', to: 'retrying', failure: { code: 'BOOM', message } },
      { kind: 'progress', percent: 70, message: 'nearly' },
    ]);
  });

  it('shows the lines of the handler, and follows them to the end of the job', async () => {
    const job = await ledger.submitOne({ orgId: DEFAULT_ORG_ID, type: 'logs.two' });
    const running = await ledger.start(job);
    const log = (n: number, message: string) =>
      ledger.db.api.query(
        `INSERT INTO millrace.job_logs (org_id, seq, lease_seq, n, attempt, level, at, message, fields)
         VALUES ($1, $2, $3, $4, 1, 'warn', millrace.clock(), $5, '{"left":7}')`,
        [job.orgId, job.seq, running.leaseSeq, n, message],
      );
    await log(1, 'low on\u001b[2J disk\nforged');
    const follow = start(['jobs', 'logs', job.id, '--follow'], here());
    await follow.said(/ {2}warn {7}attempt 1: low on\\u001b\[2J disk\\nforged \{"left":7\}\n/);
    await log(2, 'still low');
    await follow.said(/attempt 1: still low \{"left":7\}\n/);
    await ledger.settle(running, { to: 'completed', reason: 'succeeded' });
    expect(await follow.ended).toMatchObject({ code: 0, stderr: '' });
    expect(follow.stdout).toMatch(/ {2}completed {2}succeeded, attempt 1\n$/);
    const { entries } = await ask<{ entries: object[] }>(['jobs', 'logs', job.id], here());
    expect(entries).toMatchObject([
      { kind: 'state', to: 'scheduled' },
      { kind: 'state', to: 'running' },
      { kind: 'log', level: 'warn', attempt: 1, fields: { left: 7 } },
      { kind: 'log', message: 'still low' },
      { kind: 'state', to: 'completed' },
    ]);
  });

  it('leaves cleanly when a follower is interrupted', async () => {
    const job = await ledger.putJob('scheduled', { orgId: DEFAULT_ORG_ID });
    const follow = start(['jobs', 'logs', job.id, '-f'], here());
    await follow.said(/scheduled/);
    follow.kill('SIGINT');
    expect(await follow.ended).toMatchObject({ code: 130, stderr: '' });
  });
});
