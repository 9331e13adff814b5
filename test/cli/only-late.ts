/**
 * The simulator reports jobs that were queued a second late, as a busy machine makes them. What a run in a test proves is the rest: a job
 * that was queued much later, or never, is a problem here, too.
 */
const LATE = /^was queued (\d+) ms after (?:its time|the server was up again)$/;
const MUCH_LATER_MS = 30_000;

export const isOnlyLate = ({ problem }: { readonly problem: string }): boolean => {
  const [, lateMs] = LATE.exec(problem) ?? [];
  return lateMs !== undefined && Number(lateMs) < MUCH_LATER_MS;
};
