import { appendFileSync } from 'node:fs';
import fc from 'fast-check';
import { beforeAll, test } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { ZOMBIES } from './commands.ts';
import { lifecycleProperty } from './lifecycle.ts';
import { stopClock } from './system.ts';
import { unguarded } from './unguarded.ts';

const ledger = useLedger();
beforeAll(() => stopClock(ledger));
test('seeds', { timeout: 900_000 }, async () => {
  for (const name of [
    'millrace_complete_late_jobs',
    'millrace_complete_unlocked_late_jobs',
    'millrace_complete_jobs',
    'millrace_save_checkpoint',
    'millrace_settle_jobs',
    'millrace_start_jobs',
    'millrace_return_jobs',
    'millrace_report_progress',
    'millrace_heartbeat',
  ])
    for (let seed = 1; seed <= 7; seed++) {
      const t = performance.now();
      const d = await fc.check(lifecycleProperty(ledger, { mix: ZOMBIES, wire: unguarded(name) }), {
        seed,
        numRuns: 30,
        endOnFailure: true,
      });
      appendFileSync(
        '/tmp/ht/seeds.txt',
        `${name} seed ${seed} runs ${d.numRuns} failed ${d.failed} ${(performance.now() - t).toFixed(0)} ms\n`,
      );
    }
});
