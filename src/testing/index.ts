export type { JobOutcome } from '../ledger/outcome-journal.ts';
export { openTestMillrace, type TestMillrace, type TestMillraceOptions } from './test-millrace.ts';
