/** A ledger whose statements forget to look at the lease, made without touching the source. */
import { allStatements, type Queryable } from '../../src/ledger/driver/statement.ts';
import type { Wire } from './system.ts';

/** The comparison of a job's newest lease with the one that was presented. */
const GUARD = /\b(AND|WHERE) (?:j\.)?lease_seq = ([a-z]\.lease_seq|\$\d+(?:::int8)?)/g;

/** The names of all statements that bear the guard. */
export const guardedStatements = (): string[] =>
  allStatements()
    .filter(({ text }) => text.match(GUARD) !== null)
    .map(({ name }) => name)
    .toSorted();

/** What was presented is still read, so that the statement's parameters keep their types. */
const withoutGuard = (text: string): string =>
  text.replace(
    GUARD,
    (_, word, presented: string) =>
      `${word} ${presented.startsWith('$') && !presented.includes('::') ? `${presented}::int8` : presented} IS NOT NULL`,
  );

/** Sends this one statement without its guard; throws at once if there is none to remove. */
export function unguarded(name: string): Wire {
  return spoiled(name, withoutGuard);
}

/** Sends this one statement in another text; throws at once if the change changes nothing. */
export function spoiled(name: string, change: (text: string) => string): Wire {
  const original = allStatements().find((made) => made.name === name)?.text;
  if (original === undefined) throw new Error(`there is no statement ${name}`);
  const text = change(original);
  if (text === original) throw new Error(`nothing in ${name} was there to be changed`);
  return (db): Queryable => ({
    query: (config) => db.query(config.name === name ? { ...config, name: undefined, text } : config),
  });
}
