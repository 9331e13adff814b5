const LEAST_MS = 1_000;
const MOST_MS = 30_000;
const MAX_PLANS = 10_000;

/**
 * Says when tasks that found a host full should come back. The tasks of an org get times one after the other, at the speed at which the host
 * takes them. So thousands of tasks do not return all at once, and a lone task of another org does not wait behind them.
 */
export class LaterPlan {
  /** The time of the last task of an org at a host, in the order of use. */
  readonly #lastMs = new Map<string, number>();

  next({ host, orgId, spacingMs, nowMs }: { host: string; orgId: string; spacingMs: number; nowMs: number }): number {
    const key = `${orgId} ${host}`;
    const earliestMs = nowMs + LEAST_MS;
    const plannedMs = Math.max(earliestMs, (this.#lastMs.get(key) ?? 0) + spacingMs);
    const atMs = Math.min(plannedMs, nowMs + MOST_MS);
    this.#lastMs.delete(key);
    this.#lastMs.set(key, atMs);
    if (this.#lastMs.size > MAX_PLANS) this.#lastMs.delete(this.#lastMs.keys().next().value as string);
    return Math.round(atMs - nowMs);
  }
}
