import { expect, test } from 'vitest';
import { namedStatement, runNamed } from '../../src/ledger/driver/statement.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

type Params = { left: number; right: number | null };

const ADD = namedStatement<Params, { sum: number; repeated: number }>(
  'test_add',
  `SELECT $left::int4 + coalesce($right::int4, 0) AS sum, $left::int4 AS repeated, '$1'::text AS quoted`,
);

test('named parameters are numbered in the order in which they first occur', async () => {
  expect(ADD.parameters).toEqual(['left', 'right']);
  expect(ADD.text).toContain('$1::int4 + coalesce($2::int4, 0) AS sum, $1::int4');
  expect(await runNamed(ledger.db.api, ADD, { left: 2, right: 3 })).toMatchObject([{ sum: 5, repeated: 2 }]);
  expect(await runNamed(ledger.db.api, ADD, { left: 2, right: null })).toMatchObject([{ sum: 2 }]);
});

test('a parameter without a value is refused before the statement is sent', () => {
  const params = { left: 2 } as Params;
  expect(() => runNamed(ledger.db.api, ADD, params)).toThrow('millrace_test_add needs a value for $right.');
});
