/**
 * A test of a handler, without waiting. `openTestMillrace` creates a separate database and stops its clock. The test decides
 * when jobs run, moves the clock by an hour in one call, and skips the backoff of a retry. In your project, put this in a
 * file of your test runner.
 */
import assert from 'node:assert/strict';
import { TemporaryError } from '../src/index.ts'; // In your program: from 'millrace'
import { openTestMillrace } from '../src/testing/index.ts'; // In your program: from 'millrace/testing'

type Jobs = { charge: { payload: { cents: number }; result: { receipt: string } } };

const mill = await openTestMillrace<Jobs>();
let bankIsOpen = false;
mill.register({
  type: 'charge',
  maxAttempts: 3,
  backoff: { initialDelay: '1h', jitter: false },
  handler: (_context, { cents }) => {
    if (!bankIsOpen) throw new TemporaryError('the bank is closed', { code: 'CLOSED' });
    return { receipt: `paid ${cents}` };
  },
});

const first = await mill.runJob('charge', { cents: 500 });
assert.equal(first.state, 'retrying');
assert.equal(first.lastFailure?.code, 'CLOSED');
console.log(`while the bank is closed: ${first.state}`);

bankIsOpen = true;
assert.deepEqual(await mill.advance('59m'), [], 'nothing is due before the hour is over');
const [outcome] = await mill.advance('1m');
assert.equal(outcome?.state, 'completed');
console.log(`an hour later: ${outcome?.state}, attempt ${outcome?.attempt}`);

bankIsOpen = false;
await mill.submit({ type: 'charge', payload: { cents: 700 } });
const outcomes = await mill.fastForward();
console.log(`a bank that never opens: ${outcomes.map(({ state }) => state).join(', ')}`);
await mill.close();
