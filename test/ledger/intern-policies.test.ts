import { expect, onTestFinished, test } from 'vitest';
import { type Policy, PROFILES } from '../../src/core/policy.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { PolicyCache } from '../../src/ledger/jobs/intern-policies.ts';
import { useLedger } from './fixture.ts';
import { useLockPatience } from './patient.ts';

const ledger = useLedger();
useLockPatience(ledger);
let made = 0;

/** A policy that no other test has. */
const newPolicy = (): Policy => ({ ...PROFILES.gopherqueue, timeoutMs: 1_000 + made++ });

const idsOf = async (policy: Policy): Promise<number[]> => {
  const text = `SELECT id FROM millrace.policies WHERE body->>'timeoutMs' = $1`;
  return (await ledger.db.api.query(text, [String(policy.timeoutMs)])).rows.map(({ id }) => id);
};

/** The ledger's pool, with a count of the statements that were sent. */
function counting(): { db: Queryable; count: () => number } {
  let count = 0;
  const db = new Proxy(ledger.db.api, {
    get(pool, name) {
      if (name === 'query') count++;
      const member = Reflect.get(pool, name);
      return typeof member === 'function' ? member.bind(pool) : member;
    },
  });
  return { db: db as unknown as Queryable, count: () => count };
}

test('a policy has one number for all processes, and callers that meet it together share one statement', async () => {
  const policy = newPolicy();
  const { db, count } = counting();
  const [one, other] = [new PolicyCache(db), new PolicyCache(ledger.db.api)];
  const ids = await Promise.all([one.idOf(policy), one.idOf({ ...policy }), one.idOf(policy), other.idOf(policy)]);
  expect(new Set(ids).size).toBe(1);
  expect(await idsOf(policy)).toEqual([ids[0]]);
  expect([count(), one.known(policy), one.cached(ids[0] as number)]).toEqual([1, ids[0], policy]);
});

test('a number that has expired is asked for again, and is another one if the policy was removed', async () => {
  const policy = newPolicy();
  const { db, count } = counting();
  const [lasting, passing] = [new PolicyCache(ledger.db.api), new PolicyCache(db, { lifeMs: 0 })];
  const id = await passing.idOf(policy);
  expect(passing.known(policy)).toBeUndefined();
  await ledger.db.api.query(`UPDATE millrace.policies SET last_used_at = now() - interval '3 days' WHERE id = $1`, [id]);
  expect([await passing.idOf(policy), count()]).toEqual([id, 2]);
  const isUsed = `SELECT last_used_at > now() - interval '1 hour' AS used FROM millrace.policies WHERE id = $1`;
  const { rows } = await ledger.db.api.query(isUsed, [id]);
  expect(rows).toEqual([{ used: true }]);
  await ledger.db.api.query('DELETE FROM millrace.policies WHERE id = $1', [id]);
  const renewed = await passing.idOf(policy);
  expect(renewed).not.toBe(id);
  expect([await lasting.idOf(policy), await idsOf(policy)]).toEqual([renewed, [renewed]]);
});

test('a policy that is asked for while it is being removed is written anew', async () => {
  const policy = newPolicy();
  const id = await new PolicyCache(ledger.db.api).idOf(policy);
  const remover = await ledger.db.maintenance.connect();
  onTestFinished(() => remover.release(true));
  await remover.query('BEGIN');
  await remover.query('DELETE FROM millrace.policies WHERE id = $1', [id]);
  const asking = new PolicyCache(ledger.db.api).idOf(policy);
  await ledger.untilBlocked();
  await remover.query('COMMIT');
  const renewed = await asking;
  expect(renewed).not.toBe(id);
  expect(await idsOf(policy)).toEqual([renewed]);
});

test('a cache remembers a limited number of policies', async () => {
  const { db, count } = counting();
  const cache = new PolicyCache(db, { maxRemembered: 2 });
  const policies = [newPolicy(), newPolicy(), newPolicy()] as const;
  const ids: number[] = [];
  for (const policy of policies) ids.push(await cache.idOf(policy));
  expect(ids.map((id) => cache.cached(id))).toEqual([undefined, policies[1], policies[2]]);
  expect(await cache.policyOf(ids[0] as number)).toEqual(policies[0]);
  const before = count();
  for (const policy of [{ ...policies[0] }, { ...policies[2] }]) await cache.idOf(policy);
  expect(count() - before).toBe(1);
});
