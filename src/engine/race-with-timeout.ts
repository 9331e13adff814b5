/**
 * Settles as `work` does. If `work` takes longer than `timeoutMs`, it settles as `late` does, which returns a value or throws. The work
 * itself goes on.
 */
export async function raceWithTimeout<Value, Late>(work: Promise<Value>, timeoutMs: number, late: () => Late): Promise<Value | Late> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  try {
    return await Promise.race([work, promise.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}
