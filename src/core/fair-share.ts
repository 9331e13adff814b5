/** The part of a shared limit that one holder may fill while it is alone. */
export const DEFAULT_ORG_SHARE = 0.5;

/** Beyond that part, a holder may have at most one place for every eight that stay free. */
const FREE_PER_PLACE = 8;

export type SharedLimit = {
  readonly limit: number;
  /** The part of the limit that holders may fill without regard to each other, from 0 to 1. */
  readonly part: number;
};

/** The places that one holder has, and those of all holders. */
export type Use = { readonly own: number; readonly all: number };

/**
 * Returns how many places a holder may have. The first part of a limit goes to those who come first. The rest is divided so that every
 * further holder leaves room for the next: 20 greedy holders leave 5 % of the limit free, and the 21st gets an eighth of that.
 */
export function shareOf({ limit, part }: SharedLimit, { own, all }: Use): number {
  const left = limit - (all - own);
  if (left <= 0) return 0;
  const first = left - limit + Math.ceil(limit * part);
  return Math.max(first, Math.floor(left / (FREE_PER_PLACE + 1)), 1);
}

/** A count of all holders and of each. `all` may include holders that are not listed. */
export type Amounts = { readonly all: number; readonly holders: ReadonlyMap<string, number> };

/**
 * Counts of each holder no more than it could have taken by its share, the largest holder first. Some holders get beyond their share
 * in ways that are not refused, such as jobs that become due. So they take no room of others.
 */
function withinShares(limit: SharedLimit, { all, holders }: Amounts): Amounts {
  if (limit.part >= 1) return { all, holders };
  const counted = new Map<string, number>();
  let sum = all;
  for (const amount of holders.values()) sum -= amount;
  for (const [holder, amount] of [...holders].sort(([, left], [, right]) => right - left)) {
    const share = Math.min(amount, shareOf(limit, { own: 0, all: sum }));
    counted.set(holder, share);
    sum += share;
  }
  return { all: sum, holders: counted };
}

/** How much of a shared limit each holder uses, in memory. */
export class SharedUse {
  readonly #limit: SharedLimit;
  #all = 0;
  #holders = new Map<string, number>();

  constructor(limit: SharedLimit) {
    this.#limit = limit;
  }

  get all(): number {
    return this.#all;
  }

  get isFull(): boolean {
    return this.#all >= this.#limit.limit;
  }

  own(holder: string): number {
    return this.#holders.get(holder) ?? 0;
  }

  share(holder: string): number {
    return shareOf(this.#limit, { own: this.own(holder), all: this.#all });
  }

  /** How much the holder may add. Negative if it has more than its share. */
  room(holder: string): number {
    const own = this.own(holder);
    return shareOf(this.#limit, { own, all: this.#all }) - own;
  }

  /** A negative amount gives back. */
  add(holder: string, amount: number): void {
    const own = this.own(holder) + amount;
    if (own > 0) this.#holders.set(holder, own);
    else this.#holders.delete(holder);
    this.#all += amount;
  }

  /** Replaces the amounts by new ones. */
  replace(amounts: Amounts): void {
    const { all, holders } = withinShares(this.#limit, amounts);
    this.#all = all;
    this.#holders = new Map(holders);
  }
}
