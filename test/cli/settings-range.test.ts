import { describe, expect, it } from 'vitest';
import { Output } from '../../src/cli/output.ts';
import { SECTIONS, settingsOf } from '../../src/config/settings.ts';
import { pruneJobs } from '../../src/ledger/upkeep/prune.ts';
import { pruneAccess } from '../../src/ledger/upkeep/prune-keys.ts';
import { openPlatform } from '../../src/platform/platform.ts';
import { configOf } from '../config/environment.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();

const durations = SECTIONS.flatMap((section) =>
  Object.entries(settingsOf(section)).flatMap(([key, { kind }]) => (kind.type === 'duration' ? [{ section, key, kind }] : [])),
);

/** Every duration of these sections at the end of its range, as the environment names them. */
function extremes(end: 'minMs' | 'maxMs', isAsked: (section: string) => boolean = () => true): Record<string, string> {
  const asked = durations.filter(({ section }) => isAsked(section));
  const given = asked.map(({ section, key, kind }) => [
    `MILLRACE_${section}_${key}`.toUpperCase(),
    // The largest lease is a day, and a heartbeat is at most half of its lease.
    `${section}.${key}.${end}` === 'execution.heartbeat.maxMs' ? '12h' : `${kind[end]}ms`,
  ]);
  return Object.fromEntries(given);
}

/** Starts everything that `millrace up` starts but its socket, lets the pruner work once, and stops it. */
async function startAndStop(environment: Readonly<Record<string, string>>): Promise<void> {
  const config = configOf({ DATABASE_URL: ledger.db.url, ...environment });
  const out = new Output({ json: false, verbose: false });
  const platform = await openPlatform({ config, out, migrates: false, concurrency: 1 });
  const errors: unknown[] = [];
  platform.engine.events.on('error', ({ error }) => errors.push(error));
  try {
    await platform.start();
    const { maintenance } = platform.database;
    await pruneJobs(maintenance, 10);
    await pruneAccess(maintenance, { revokedKeysMs: config.execution.revokedKeysMs, limit: 10 });
  } finally {
    await platform.close(0);
  }
  expect(errors).toEqual([]);
}

const isQueue = (section: string): boolean => section === 'queue';
const isOther = (section: string): boolean => section !== 'queue';

describe('the platform starts with', () => {
  it.each([
    ['every duration as short as it may be', extremes('minMs')],
    ['every duration as long as it may be', extremes('maxMs')],
    ['short durations of queues and long ones elsewhere', { ...extremes('minMs', isQueue), ...extremes('maxMs', isOther) }],
    ['long durations of queues and short ones elsewhere', { ...extremes('maxMs', isQueue), ...extremes('minMs', isOther) }],
    ['a timeout of jobs that is shorter than that of webhooks', { MILLRACE_QUEUE_EXECUTION_TIMEOUT: '9s' }],
    ['one attempt', { MILLRACE_QUEUE_MAX_ATTEMPTS: '1', MILLRACE_EXECUTION_MAX_RETRIES: '0' }],
  ])('%s', async (_what, environment) => {
    await startAndStop(environment);
  });
});
