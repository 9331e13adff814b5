import { expect, it } from 'vitest';
import { lex } from './source-lexer.ts';
import { readSourceTree } from './source-tree.ts';

/** Words of this codebase. A user meets none of them in a setting, an option or a response, so a message cannot use them. */
const INTERNAL = [
  'profile',
  'gopherqueue',
  'forgerun',
  'fetchbox',
  'ledger',
  'lane',
  'crew',
  'stager',
  'rescuer',
  'releaser',
  'pruner',
  'promoter',
  'dispatcher',
  'submitter',
  'canceller',
  'spawner',
  'catalogue',
  'lookahead',
  'sweeper',
  'horizon',
  'envelope',
  'placement',
  'outbox',
  'fencing token',
];

const HAS_WORD = new RegExp(`\\b(?:${INTERNAL.join('|')})s?\\b`, 'i');
const IS_SQL = /\b(?:SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|VALUES|CREATE|SET|LOCK)\b/;

/** At least three words in a row: a sentence, and neither a name nor a path. */
const IS_SENTENCE = /[A-Za-z$"]+ [a-z$"]+ [a-z$"]/;

/** Clients send these headers, so they know their names. */
const HEADERS = /X-Fetchbox-[\w-]+/g;

/** Errors that mean a mistake in Millrace itself. Their readers know the code. */
const BUGS = new Set(['Policy $ is not in the ledger.']);

it('no message to a user contains a word that only this codebase uses', () => {
  const found = [...readSourceTree('src')].flatMap(([path, source]) =>
    lex(source)
      .filter(({ kind, text }) => (kind === 'string' || kind === 'template') && IS_SENTENCE.test(text) && !IS_SQL.test(text))
      .filter(({ text }) => HAS_WORD.test(text.replaceAll(HEADERS, '')) && !BUGS.has(text))
      .map(({ text }) => `${path}: ${text}`),
  );
  // Name what the user can set or see: an option, a setting such as queue.execution_timeout, a state or a job type.
  expect(found).toEqual([]);
});
