export type { JobOutcome } from '../ledger/history/outcome-journal.ts';
export { openTestMillrace, type TestMillrace, type TestMillraceOptions } from './test-millrace.ts';
