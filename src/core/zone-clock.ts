/** A time as the clocks of a zone show it: the milliseconds that UTC has when its clocks show the same. */
export type WallMs = number;

const DAY_MS = 86_400_000;
/** A wall time is at most 14 hours from UTC, so any change of the clocks that concerns it is within this of it. */
const AROUND_MS = DAY_MS + 7_200_000;

/**
 * Converts between instants and the wall time of a zone, with every change of its clocks. Pure: it reads the time zone database and no
 * clock. Throws a RangeError for a zone that this machine does not know.
 */
export class ZoneClock {
  readonly #format: Intl.DateTimeFormat;

  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-u-ca-iso8601-nu-latn', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  }

  /** How far the clocks of the zone are ahead of UTC at an instant. */
  offsetAt(ms: number): number {
    const parts = new Map(this.#format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
    const part = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
    const shown = Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second'));
    return shown - Math.floor(ms / 1_000) * 1_000;
  }

  wallAt(ms: number): WallMs {
    return ms + this.offsetAt(ms);
  }

  /**
   * The first instant at which the clocks show the wall time. If they never show it, because they were put forward past it, the
   * instant at which that happened.
   */
  firstInstant(wall: WallMs): number {
    const offsets = [this.offsetAt(wall - AROUND_MS), this.offsetAt(wall + AROUND_MS)] as const;
    const instants = offsets.map((offset) => wall - offset).filter((ms) => this.wallAt(ms) === wall);
    if (instants.length > 0) return Math.min(...instants);
    const [before, after] = offsets;
    return this.#changeBetween(wall - after, wall - before);
  }

  /** The change of the clocks between two instants, or null if the offsets of both are the same. */
  changeBetween(fromMs: number, toMs: number): { atMs: number; before: number; after: number } | null {
    const [before, after] = [this.offsetAt(fromMs), this.offsetAt(toMs)];
    return before === after ? null : { atMs: this.#changeBetween(fromMs, toMs), before, after };
  }

  #changeBetween(fromMs: number, toMs: number): number {
    const before = this.offsetAt(fromMs);
    let [low, high] = [Math.floor(fromMs / 1_000), Math.ceil(toMs / 1_000)];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.offsetAt(middle * 1_000) === before) low = middle;
      else high = middle;
    }
    return high * 1_000;
  }
}
