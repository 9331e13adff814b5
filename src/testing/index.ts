export type { JobOutcome } from '../ledger/job-outcomes.ts';
export { openTestMillrace, type TestMillrace, type TestMillraceOptions } from './test-millrace.ts';
