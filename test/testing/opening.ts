import { inject, onTestFinished } from 'vitest';
import type { JobTypes } from '../../src/index.ts';
import { openTestMillrace, type TestMillrace, type TestMillraceOptions } from '../../src/testing/index.ts';

/** On the server of the test run; closed with the test. */
export async function openMill<Jobs extends JobTypes = JobTypes>(options: TestMillraceOptions = {}): Promise<TestMillrace<Jobs>> {
  const mill = await openTestMillrace<Jobs>({ database: inject('postgresUrl'), ...options });
  onTestFinished(() => mill.close());
  return mill;
}
