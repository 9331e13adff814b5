import { describe, expect, test } from 'vitest';
import { actorOfText } from '../../src/core/governance/actor.ts';
import { NIL_ORG_ID } from '../../src/core/governance/audit-action.ts';
import { raiseAlerts } from '../../src/ledger/alerts/raise-alert.ts';
import { recordActions } from '../../src/ledger/audit/record-action.ts';
import { useLedger } from './fixture.ts';
import { moveToMidday } from './set-clock.ts';

const ledger = useLedger();

describe('alerts', () => {
  test('one subject has one alert an hour, which counts the repeats; other orgs and kinds have their own', async () => {
    await moveToMidday(ledger);
    const orgId = '7d1f3a52-3a3b-4f7e-9a5e-0a5f2f6b8c01';
    const alert = { kind: 'dead_letter', severity: 'error', orgId, subject: 'group:__proto__', message: 'first' } as const;
    await raiseAlerts(ledger.db.api, [alert, alert, { ...alert, orgId: null }]);
    await raiseAlerts(ledger.db.api, [
      { ...alert, message: 'later', count: 40 },
      { ...alert, kind: 'slo' },
    ]);
    const { rows } = await ledger.db.api.query(`SELECT kind, org_id, repeats, message FROM millrace.alerts ORDER BY kind, org_id`);
    expect(rows).toEqual([
      { kind: 'dead_letter', org_id: orgId, repeats: 42, message: 'later' },
      { kind: 'dead_letter', org_id: null, repeats: 1, message: 'first' },
      { kind: 'slo', org_id: orgId, repeats: 1, message: 'first' },
    ]);
  });
});

describe('requested actions', () => {
  test('an action keeps its actor, request, reason and details, whatever text they contain', async () => {
    const requester = { actor: 'user:operator', requestId: 'r-1', reason: 'it is "back" \u0000 …' };
    const details = { queue: 'constructor', ['__proto__' as string]: 1 };
    await recordActions(ledger.db.api, [{ orgId: NIL_ORG_ID, event: 'queue.paused', requester, details }]);
    const { rows } = await ledger.db.api.query(
      `SELECT event, actor, request_id, correlation_id, org_id, details::text AS details FROM millrace.audit_actions`,
    );
    expect(rows).toEqual([
      {
        event: 'queue.paused',
        actor: 'user:operator',
        request_id: 'r-1',
        correlation_id: 'r-1',
        org_id: NIL_ORG_ID,
        details: JSON.stringify({ ...details, reason: requester.reason }),
      },
    ]);
  });
});

test.each([
  ['api_key:4kJ', { type: 'api_key', id: '4kJ' }],
  ['user:operator', { type: 'user', id: 'operator' }],
  ['scheduler', { type: 'system', id: 'scheduler' }],
  ['constructor:x', { type: 'system', id: 'constructor:x' }],
  [null, { type: 'system', id: 'millrace' }],
])('the actor %s has a type and an id', (text, actor) => {
  expect(actorOfText(text)).toEqual(actor);
});
