import { describe, expect, it } from 'vitest';
import type { WorkKind } from '../../src/core/execution/kinds.ts';
import { type DeliveryCase, judgeDeliveries, SLOW_MS } from '../../src/simulator/check.ts';
import type { DeliveryView, ReportRow } from '../../src/simulator/wire.ts';

const NAMES = ['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.succeeded'];

type Attempt = DeliveryView['attempts'][number];

const GOOD: Attempt = { verdict: 'delivered', status: 200, error_code: null, duration_ms: 5 };
const BAD: Attempt = { verdict: 'retry', status: 500, error_code: 'STATUS', duration_ms: 5 };
const LATE: Attempt = { verdict: 'retry', status: null, error_code: 'TIMEOUT', duration_ms: 500 };
const CUT: Attempt = { verdict: 'interrupted', status: null, error_code: 'WORKER_LOST', duration_ms: 500 };

/** Five deliveries that all went like this, each attempt of which arrived. */
function told(kind: WorkKind, attempts: readonly Attempt[], state: DeliveryView['state'] = 'delivered'): DeliveryCase {
  const events = NAMES.map((event_name, at) => ({ event_id: `e${at}`, event_name }));
  const row = { job_id: 'j', type: 'EXECUTE', state: 'SUCCEEDED', work_kind: kind, events } as unknown as ReportRow;
  const deliveries = NAMES.map((event, at) => ({ message_id: `m${at}`, event, state, attempts, ended_at: 'now' }));
  const received = events.flatMap((data, at) =>
    attempts.map(() => ({ messageId: `m${at}`, body: JSON.stringify({ type: data.event_name, data }) })),
  );
  return { row, deliveries, received };
}

describe('the judge of deliveries', () => {
  it.each([
    ['WEBHOOK_SUCCESS', [GOOD], 'delivered'],
    ['WEBHOOK_SUCCESS', [BAD, GOOD], 'delivered'],
    ['WEBHOOK_TIMEOUT', [LATE, GOOD], 'delivered'],
    ['WEBHOOK_TIMEOUT', [CUT, GOOD], 'delivered'],
    ['WEBHOOK_5XX', [BAD, GOOD], 'delivered'],
    ['WEBHOOK_5XX', [CUT, GOOD], 'delivered'],
    ['WEBHOOK_RETRIES_EXHAUSTED', [BAD, BAD], 'failed'],
    ['WEBHOOK_SLOW_RECEIVER', [{ ...GOOD, duration_ms: SLOW_MS }], 'delivered'],
  ] as const)('accepts %s that ended as it should', (kind, attempts, state) => {
    expect(judgeDeliveries(told(kind, attempts, state))).toEqual([]);
  });

  it.each([
    ['WEBHOOK_SUCCESS', [BAD, BAD], 'failed'],
    ['WEBHOOK_SUCCESS', [], 'queued'],
    ['WEBHOOK_TIMEOUT', [GOOD], 'delivered'],
    ['WEBHOOK_TIMEOUT', [BAD, GOOD], 'delivered'],
    ['WEBHOOK_5XX', [GOOD], 'delivered'],
    ['WEBHOOK_RETRIES_EXHAUSTED', [BAD, GOOD], 'delivered'],
    ['WEBHOOK_RETRIES_EXHAUSTED', [BAD], 'failed'],
    ['WEBHOOK_SLOW_RECEIVER', [GOOD], 'delivered'],
  ] as const)('refuses %s that went %j and is %s', (kind, attempts, state) => {
    expect(judgeDeliveries(told(kind, attempts, state)).join()).toMatch(/its job\.created is /);
  });

  it('misses an event that was not told, not received, or told in another order', () => {
    const whole = told('WEBHOOK_SUCCESS', [GOOD]);
    const untold = { ...whole, deliveries: whole.deliveries.slice(1) };
    expect(judgeDeliveries(untold).join()).toContain('should send');
    const unheard = { ...whole, received: whole.received.slice(1) };
    expect(judgeDeliveries(unheard).join()).toContain('did not arrive');
    const turned = { ...whole, received: whole.received.toReversed() };
    expect(judgeDeliveries(turned).join()).toContain('arrived as job.succeeded');
    const renamed = whole.received.map((message, at) => (at === 0 ? { ...message, messageId: 'm9' } : message));
    expect(judgeDeliveries({ ...whole, received: renamed }).join()).toContain('messages arrived for');
  });

  it('misses an attempt that arrived and is not written down', () => {
    const whole = told('WEBHOOK_5XX', [BAD, GOOD]);
    const more = { ...whole, received: [...whole.received, ...whole.received.slice(-1)] };
    expect(judgeDeliveries(more).join()).toContain('its job.succeeded arrived 3 times');
  });
});
