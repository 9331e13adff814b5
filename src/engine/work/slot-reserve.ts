/** A worker with fewer slots reserves none, because one slot would be too large a part of them. */
const FEWEST_SLOTS = 4;

/**
 * How many of a worker's slots only an org of which it runs no job may take. Handlers are not interrupted, so without a reserve the long
 * jobs of one org could occupy every slot until they end.
 */
export function reserveOf(slots: number, percent: number): number {
  if (percent === 0 || slots < FEWEST_SLOTS) return 0;
  return Math.max(1, Math.floor((slots * percent) / 100));
}
