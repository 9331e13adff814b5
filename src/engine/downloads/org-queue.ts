/** Waiters of several orgs. Orgs take turns, and the waiters of an org keep their order. */
export class OrgQueue<T extends { readonly orgId: string }> {
  /** In the order of turns. An org without waiters is removed. */
  readonly #byOrg = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get orgs(): number {
    return this.#byOrg.size;
  }

  has(orgId: string): boolean {
    return this.#byOrg.has(orgId);
  }

  add(waiter: T): void {
    const waiters = this.#byOrg.get(waiter.orgId);
    if (waiters === undefined) this.#byOrg.set(waiter.orgId, new Set([waiter]));
    else waiters.add(waiter);
    this.#size++;
  }

  /** Returns whether the waiter was in the queue. */
  remove(waiter: T): boolean {
    const waiters = this.#byOrg.get(waiter.orgId);
    if (waiters?.delete(waiter) !== true) return false;
    this.#size--;
    if (waiters.size === 0) this.#byOrg.delete(waiter.orgId);
    return true;
  }

  take(): T | undefined {
    const [turn] = this.#byOrg;
    if (turn === undefined) return undefined;
    const [orgId, waiters] = turn;
    const [waiter] = waiters as Set<T>;
    this.remove(waiter as T);
    // The org goes to the end, behind all others that wait.
    if (this.#byOrg.delete(orgId)) this.#byOrg.set(orgId, waiters);
    return waiter;
  }

  takeAll(): T[] {
    const all = [...this.#byOrg.values()].flatMap((waiters) => [...waiters]);
    this.#byOrg.clear();
    this.#size = 0;
    return all;
  }
}
