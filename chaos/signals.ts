/** Facts that other processes report, each under a key. They are kept until a caller reads them. */
export class Signals {
  readonly #known = new Map<string, number>();
  readonly #awaited = new Map<string, PromiseWithResolvers<number>>();

  give(key: string, value: number): void {
    const awaited = this.#awaited.get(key);
    if (awaited === undefined) this.#known.set(key, value);
    awaited?.resolve(value);
  }

  /** Resolves with the value of the key, at once if it was already reported. */
  until(key: string): Promise<number> {
    const known = this.#known.get(key);
    if (known !== undefined) return Promise.resolve(known);
    const awaited = this.#awaited.get(key) ?? Promise.withResolvers<number>();
    this.#awaited.set(key, awaited);
    return awaited.promise;
  }
}
