import { describe, expect, it } from 'vitest';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ env: { DATABASE_URL: ledger.db.url } });

describe('queues set, show and drain', () => {
  it('change a queue and say so', async () => {
    const set = await run(['queues', 'set', 'q:exports', '--concurrency', '2', '--rate', '0.5', '--slo', '2m', '--reason', 'slow'], here());
    expect(set).toMatchObject({ code: 0, stdout: 'Queue q:exports is open, 2 at once, 0.5/s.\n' });
    expect((await run(['queues', 'show', 'q:exports'], here())).stdout).toMatch(/^concurrency +2$/m);
    const { queue } = await ask<{ queue: object }>(['queues', 'set', 'q:exports', '--concurrency', 'none'], here());
    expect(queue).toMatchObject({ name: 'q:exports', concurrency: null, rate: 0.5, sloSeconds: 120 });
    const { rows } = await ledger.db.api.query(`SELECT actor, details FROM ${ACTIONS} WHERE event = 'queue.changed' ORDER BY id`);
    expect(rows[0]).toMatchObject({ actor: 'user:operator', details: { queue: 'q:exports', concurrency: 2, reason: 'slow' } });
    expect((await run(['queues', 'drain', 'q:exports'], here())).stdout).toMatch(/^Queue q:exports is draining, 0.5\/s\.$/m);
  });

  it('refuse what cannot be', async () => {
    expect(await run(['queues', 'set', 'q:exports'], here())).toMatchObject({ code: 2, stderr: expect.stringContaining('Name a setting') });
    const wrong = await run(['queues', 'set', 'q:exports', '--concurrency', '0'], here());
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('must be an integer from 1 to 1000000000') });
    const letters = await run(['queues', 'pause', 'q:deadletter'], here());
    expect(letters).toMatchObject({ code: 1, stderr: expect.stringContaining('shows the dead letters') });
  });
});

describe('types', () => {
  it('are listed, and only known ones are paused', async () => {
    await ledger.db.api.query(`INSERT INTO millrace.job_types (name, announced_at) VALUES ('send-mail', now())`);
    expect((await run(['types', 'pause', 'send-mail'], here())).stdout).toBe('Type send-mail is paused.\n');
    expect((await run(['types', 'list'], here())).stdout).toMatch(/^send-mail +0 .*paused since/m);
    const mistyped = await run(['types', 'pause', 'sendmail'], here());
    expect(mistyped).toMatchObject({ code: 1, stderr: expect.stringContaining('did you mean send-mail?') });
  });
});
