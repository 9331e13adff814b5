/**
 * Settles as `work` does. If `work` takes longer than `timeoutMs`, it settles as `late` does, which returns a value or throws. The work
 * itself goes on. After a pause of this process the timer comes before a response that arrived during the pause, so that response is read first.
 */
export async function raceWithTimeout<Value, Late>(work: Promise<Value>, timeoutMs: number, late: () => Late): Promise<Value | Late> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(() => setImmediate(resolve), timeoutMs);
  try {
    return await Promise.race([work, promise.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}
