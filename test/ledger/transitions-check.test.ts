import { expect, test } from 'vitest';
import { JOB_STATES } from '../../src/core/states.ts';
import { REASONS, TRANSITIONS } from '../../src/core/transitions.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const textOf = (from: string | null, to: string, reason: string): string => `${from ?? ''}>${to}:${reason}`;

test('the database accepts exactly the transitions of the table, with exactly their reasons', async () => {
  const expected = JOB_STATES.flatMap((from) =>
    JOB_STATES.flatMap((to) => TRANSITIONS[from][to].map((reason) => textOf(from, to, reason))),
  );
  const { rows: found } = await ledger.db.api.query(
    `SELECT pg_get_expr(conbin, conrelid) AS check FROM pg_constraint
     WHERE conrelid = 'millrace.records'::regclass AND conname = 'transitions_are_legal'`,
  );
  const { rows } = await ledger.db.api.query(
    `SELECT * FROM unnest($1::millrace.job_state[] || NULL::millrace.job_state) AS f(from_state),
       unnest($1::millrace.job_state[]) AS t(to_state), unnest($2::text[]) AS r(reason)
     WHERE ${found[0].check} IS NOT FALSE`,
    [JOB_STATES, [...REASONS, 'no reason at all']],
  );
  const accepted = rows.map(({ from_state, to_state, reason }) => textOf(from_state, to_state, reason));
  expect(accepted.toSorted()).toEqual([...expected, '>pending:submitted'].toSorted());
});

test('a partition made later refuses what the table refuses', async () => {
  const insert = (from: string, to: string, reason: string) =>
    ledger.db.api.query(
      `INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
       VALUES (1, now(), gen_random_uuid(), $1, $2, 2, 'x', $3, '{1}')`,
      [from, to, reason],
    );
  const refusal = { code: '23514', constraint: 'transitions_are_legal' };
  await expect(insert('completed', 'scheduled', 'manual_retry')).rejects.toMatchObject(refusal);
  await expect(insert('running', 'completed', 'started')).rejects.toMatchObject(refusal);
  await insert('running', 'completed', 'succeeded');
});
