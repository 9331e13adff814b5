/** Sessions for tests that are not about time limits: a busy machine may stop a process for longer than these are. */
import type pg from 'pg';
import { beforeAll } from 'vitest';
import type { Database } from '../../src/ledger/driver/database.ts';
import { until } from '../until.ts';

export const PATIENCE_MS = 60_000;
const POOLS = ['api', 'searching', 'reading', 'workers', 'maintenance', 'projecting'] as const;
/** Their statements have five seconds. The others have more, or a test looks at their limit. */
const HURRIED: ReadonlySet<string> = new Set(['api', 'reading', 'workers']);

/**
 * Call it before the first statement. Sessions are opened and checked as those of the product, and then get more time. With `locks` they
 * also wait for the locks that a test holds until it gives them back, and with `searches` searches get more than their two seconds.
 */
export function makePatient(database: Database, { locks = false, searches = false } = {}): void {
  for (const name of POOLS) {
    const limits = ['idle_in_transaction_session_timeout'];
    if (HURRIED.has(name) || (searches && name === 'searching')) limits.push('statement_timeout');
    if (locks) limits.push('lock_timeout');
    const text = limits.map((limit) => `SET ${limit} = ${PATIENCE_MS}`).join('; ');
    const { options } = database[name];
    const { onConnect } = options;
    Object.assign(options, {
      connectionTimeoutMillis: PATIENCE_MS,
      query_timeout: PATIENCE_MS,
      onConnect: async (client: pg.ClientBase) => {
        await onConnect?.(client);
        await client.query(text);
      },
    });
  }
}

/** For a test file whose statements wait for locks that its tests hold. Call it after `useLedger`. */
export function useLockPatience(ledger: { readonly db: Database }): void {
  beforeAll(() => makePatient(ledger.db, { locks: true }));
}

/** The address with more time for the statements of a session that reads its limits from there. */
export function patientUrl(url: string, limits: Readonly<Record<string, number>> = {}): string {
  const patient = new URL(url);
  const all = { statement_timeout: PATIENCE_MS, query_timeout: PATIENCE_MS, lock_timeout: PATIENCE_MS, ...limits };
  for (const [name, ms] of Object.entries(all)) patient.searchParams.set(name, String(ms));
  return patient.href;
}

/** Opens a session of the product that has two seconds to connect, as often as it needs. */
export async function opened<T>(open: () => Promise<T>): Promise<T> {
  let session: { value: T } | null = null;
  let failure: unknown;
  await until(
    'the session is open',
    async () => {
      try {
        session = { value: await open() };
      } catch (error) {
        failure = error;
      }
      return session === null ? failure : null;
    },
    null,
  );
  return (session as unknown as { value: T }).value;
}
