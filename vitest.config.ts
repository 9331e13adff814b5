import { defineConfig } from 'vitest/config';

/**
 * These files look at what all files of a process share: a module that they mock, the memory of the process, or every statement
 * that was loaded. Each gets a process to itself.
 */
const APART = [
  'test/engine/schedules-failing.test.ts',
  'test/http/auth-timing.test.ts',
  'test/http/bounds.test.ts',
  'test/ledger/statements.test.ts',
  'test/library/given-server.test.ts',
  'test/model/guards.test.ts',
];

// Longer than `until` waits, so that a failure says what did not happen.
const patience = { testTimeout: 90_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
    globalSetup: ['test/global-setup.ts'],
    // More than cores, because many tests wait. On 2 cores: 371 s with three, 336 s with four.
    maxWorkers: 4,
    projects: [
      // The other files follow each other in these processes. A process for each file took a quarter of the whole run.
      { test: { ...patience, name: 'shared', include: ['test/**/*.test.ts'], exclude: APART, isolate: false } },
      { test: { ...patience, name: 'apart', include: APART } },
    ],
  },
});
