import { isContended } from '../../ledger/driver/statement.ts';

/** How long a write of a handler waits for another transaction that holds the job. */
const PATIENCE_MS = 6_000;
const MAX_PAUSE_MS = 200;

/** Retries work that meets a lock of another transaction. It uses no database session while it waits. */
export async function retryWhileHeld<T>(work: () => Promise<T>): Promise<T> {
  const startedMs = performance.now();
  for (let pauseMs = 10; ; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)) {
    try {
      return await work();
    } catch (error) {
      if (!isContended(error) || performance.now() - startedMs > PATIENCE_MS) throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
