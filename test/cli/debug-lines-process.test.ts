/** The lines at the level debug, compared with the history of the jobs. */
import { describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { keyOf, logged, post, startUp } from './observed-process.ts';

const ledger = useLedger();
const HOUR_MS = 3_600_000;
const DEBUG = '[telemetry]\nlog_level = "debug"\n';

async function observed() {
  const { program, url } = await startUp(ledger, { settings: DEBUG });
  const { orgId, headers } = await keyOf(ledger);
  const submit = async (members: object = {}): Promise<string> => {
    const body = { type: 'simulate', payload: { duration_ms: 1 }, ...members };
    return (await post(`${url}/queue/v1/jobs`, { headers, body })).job_id;
  };
  const ask = (id: string, verb: 'cancel' | 'retry') =>
    post(`${url}/queue/v1/jobs/${id}/${verb}`, { headers: { ...headers, 'x-request-id': `${verb}-${id}` } });
  /** The changes of state after the submission, as the log and as the history have them. */
  const logOf = (id: string) =>
    program.logs
      .filter((line) => line.job_id === id && line.next_state !== undefined)
      .map((line) => `${line.current_state}>${line.next_state}`);
  const historyOf = async (id: string) => {
    const job = await ledger.rowOf({ orgId, id });
    const events = await ledger.eventsOf({ orgId, seq: job.seq as number });
    return events.filter(({ reason }) => reason !== 'submitted').map(({ from_state, to_state }) => `${from_state}>${to_state}`);
  };
  const reached = (id: string, state: string) => until(`the job is ${state}`, () => ledger.stateOf({ orgId, id }), state as never);
  const agree = async (id: string, state: string): Promise<string[]> => {
    await reached(id, state);
    const history = await historyOf(id);
    await until('the log has each change', () => logOf(id).toSorted(), history.toSorted());
    return history;
  };
  return { program, submit, ask, reached, agree };
}

describe('at the level debug, a job of /queue/v1 has a line for each change', () => {
  it('that its time, its attempts and its dependencies make [FR-16.30]', async () => {
    const { program, submit, reached, agree } = await observed();
    const first = await submit({ delay: 'PT1H' });
    const waiting = await submit({ depends_on: [first] });
    const timed = await submit({ depends_on: [first], delay: 'PT2H' });
    await ledger.moveClock(HOUR_MS);
    expect(await agree(first, 'completed')).toEqual(['delayed>scheduled', 'scheduled>running', 'running>completed']);
    expect(await agree(waiting, 'completed')).toEqual(['pending>scheduled', 'scheduled>running', 'running>completed']);
    await reached(timed, 'delayed');
    await ledger.moveClock(HOUR_MS);
    expect(await agree(timed, 'completed')).toEqual(['pending>delayed', 'delayed>scheduled', 'scheduled>running', 'running>completed']);
    const backoff = { initial_delay: '100ms', max_delay: '100ms' };
    const failing = await submit({ payload: { duration_ms: 1, failure: 'TEMPORARY' }, max_attempts: 2, backoff });
    const path = ['scheduled>running', 'running>retrying', 'retrying>scheduled', 'scheduled>running', 'running>dead_letter'];
    expect(await agree(failing, 'dead_letter')).toEqual(path);
    expect(await logged(program, { job_id: waiting, message: 'job.scheduled' })).toMatchObject({
      level: 'debug',
      reason: 'dependencies_met',
    });
  });

  it('that requests make, with the request [FR-16.30] [FR-16.01]', async () => {
    const { program, submit, ask, reached, agree } = await observed();
    const delayed = await submit({ delay: 'PT1H' });
    const dependent = await submit({ depends_on: [delayed] });
    await ask(delayed, 'cancel');
    expect(await agree(delayed, 'cancelled')).toEqual(['delayed>cancelled']);
    expect(await agree(dependent, 'cancelled')).toEqual(['pending>cancelled']);
    expect(await logged(program, { job_id: delayed, message: 'job.cancelled' })).toMatchObject({
      ...{ level: 'debug', job_type: 'simulate', reason: 'cancelled', request_id: `cancel-${delayed}` },
    });
    const failed = await submit({ payload: { duration_ms: 1, failure: 'PERMANENT' } });
    await reached(failed, 'failed');
    await ask(failed, 'retry');
    await until(
      'it has failed twice',
      async () => program.logs.filter((line) => line.job_id === failed && line.message === 'job.failed').length,
      2,
    );
    expect(await agree(failed, 'failed')).toContain('failed>scheduled');
    expect(await logged(program, { job_id: failed, message: 'job.retried' })).toMatchObject({
      level: 'debug',
      request_id: `retry-${failed}`,
    });
  });
});
