import { describe, expect, it } from 'vitest';
import { useBench } from '../library/fixture.ts';
import { folderWith, start } from './program.ts';

const bench = useBench();

/** What a careless handler does with a name from a payload, and what careful and older libraries do to objects of their own. */
const HANDLERS = `
  function Money(amount) { this.amount = amount; }
  Money.prototype.toString = function () { return this.amount + ' EUR'; };
  Money.prototype.constructor = Money;
  export const handlers = {
    careless: { maxAttempts: 1, handler: (_context, { name }) => { const counts = {}; counts[name].polluted = 1; } },
    replacing: { maxAttempts: 1, handler: () => { Object.prototype.toString = () => 'polluted'; } },
    ordinary: {
      maxAttempts: 1,
      handler() {
        const own = {};
        own.valueOf = () => 7;
        own.hasOwnProperty = () => false;
        return [String(new Money(3)), Object.keys(own), own + 1, new Money(1).constructor === Money];
      },
    },
    look: { maxAttempts: 1, handler: () => [{}.polluted ?? null, Object.polluted ?? null, String({})] },
  };`;

describe('the program', () => {
  it('lets no handler change what every object inherits, and every handler change objects of its own', async () => {
    const cwd = folderWith({ 'handlers.js': HANDLERS });
    const worker = start(['work', 'handlers.js'], { database: bench.ledger.db.url, cwd });
    await worker.said(/Serving careless/);
    const millrace = await bench.open();
    const ended = async (type: string, payload = {}) =>
      millrace.waitFor((await millrace.submit({ type, payload })).jobId, { timeout: '30s' });
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      expect((await ended('careless', { name })).state).not.toBe('completed');
    }
    expect((await ended('replacing')).state).not.toBe('completed');
    expect((await ended('look')).result?.output).toEqual([null, null, '[object Object]']);
    const ordinary = await ended('ordinary');
    expect(ordinary.result?.output).toEqual(['3 EUR', ['valueOf', 'hasOwnProperty'], 8, true]);
  });
});
