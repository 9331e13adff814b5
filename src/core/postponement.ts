/** How much the least wait grows with each attempt. */
const GROWTH = 1.001;
const LEAST_WAIT_MS = 1_000;

/**
 * The shortest wait before the next attempt of a job whose attempt did not count. Only the lifetime limits the number of such attempts, so
 * the wait grows: 2.7 seconds after 1000 attempts, 2.5 minutes after 5000. A job that lives a week has at most about 6400.
 */
export function leastWaitMs(attemptsStarted: number): number {
  return Math.round(LEAST_WAIT_MS * GROWTH ** attemptsStarted);
}
