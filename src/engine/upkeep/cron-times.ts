import { Cron } from 'croner';
import { AppError } from '../../core/errors.ts';
import { type WallMs, ZoneClock } from '../../core/zone-clock.ts';

/** The next time of a schedule whose cron expression matches no more times. */
export const FAR_FUTURE = new Date('9999-12-31T00:00:00Z');

const SECOND_MS = 1_000;
/** No zone repeats or skips more than this in an ordinary change of its clocks. */
const CHANGE_MS = 3 * 3_600_000;

/**
 * The times of a cron expression in a time zone. The expression is matched against the clocks of the zone, so this class decides what
 * happens when they change. A time that they skip comes when they have skipped it. A time that they show twice comes once, the first
 * time. Only an expression for every hour (`*` as its hour) goes on through the repeated hour, because it would pause for an hour.
 */
export class CronTimes {
  readonly #cron: Cron;
  readonly #zone: ZoneClock;
  readonly #isHourly: boolean;

  /** Throws INVALID_REQUEST if the expression or the time zone is not valid. */
  constructor({ cron, timeZone }: { cron: string; timeZone: string }) {
    this.#zone = zoneOf(timeZone);
    // In UTC, so that the library sees the wall time and no change of the clocks.
    this.#cron = cronOf(cron);
    this.#isHourly = isHourly(cron);
  }

  /** The first time after an instant, or null if there is none. */
  next(after: Date): Date | null {
    const ms = after.getTime();
    const found = this.#isHourly ? this.#nextInEveryHour(ms) : this.#nextOnce(ms);
    return found === null ? null : new Date(found);
  }

  #nextOnce(ms: number): number | null {
    const change = this.#zone.changeBetween(ms - CHANGE_MS, ms + CHANGE_MS);
    // While the clocks repeat an hour, they show times that have already come, up to the one at which they were put back.
    const repeatedTo = change !== null && change.atMs <= ms ? change.atMs + change.before - SECOND_MS : Number.NEGATIVE_INFINITY;
    const wall = this.#matchAfter(Math.max(this.#zone.wallAt(ms), repeatedTo));
    return wall === null ? null : this.#zone.firstInstant(wall);
  }

  #nextInEveryHour(ms: number): number | null {
    const change = this.#zone.changeBetween(ms - CHANGE_MS, ms + CHANGE_MS);
    const wall = this.#matchAfter(this.#zone.wallAt(ms));
    if (change === null) return wall === null ? null : this.#zone.firstInstant(wall);
    const { atMs, before, after } = change;
    const isBefore = ms < atMs;
    if (isBefore && wall !== null && wall - before < atMs) return wall - before;
    // From here on, the clocks show the time after the change.
    if (!isBefore) return wall === null ? null : this.#afterChange(wall, after, atMs);
    const skipped = after > before ? this.#matchAfter(atMs + before - SECOND_MS) : null;
    if (skipped !== null && skipped < atMs + after) return atMs;
    const first = this.#matchAfter(atMs + after - SECOND_MS);
    return first === null ? null : this.#afterChange(first, after, atMs);
  }

  /** A wall time soon after a change, which the clocks may have shown before it too. */
  #afterChange(wall: WallMs, offset: number, atMs: number): number {
    const instant = wall - offset;
    return instant - atMs < CHANGE_MS ? instant : this.#zone.firstInstant(wall);
  }

  #matchAfter(wall: WallMs): WallMs | null {
    return this.#cron.nextRun(new Date(wall))?.getTime() ?? null;
  }
}

function isHourly(cron: string): boolean {
  const fields = cron.trim().split(/\s+/);
  if (fields.length === 1) return (fields[0] as string).toLowerCase() === '@hourly';
  return ['*', '*/1', '0-23'].includes(fields[fields.length === 5 ? 1 : 2] as string);
}

function cronOf(cron: string): Cron {
  try {
    return new Cron(cron, { timezone: 'UTC', paused: true });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message.replace(/^CronPattern: /, '') : String(cause);
    throw refused('cron', `The cron expression "${cron}" is not valid: ${message}`, cause);
  }
}

function zoneOf(timeZone: string): ZoneClock {
  try {
    return new ZoneClock(timeZone);
  } catch (cause) {
    throw refused('timeZone', `The time zone "${timeZone}" is not known. Use a name such as Europe/Berlin.`, cause);
  }
}

const refused = (field: string, message: string, cause: unknown): AppError =>
  new AppError('INVALID_REQUEST', { message, details: [{ field, code: 'INVALID_VALUE', message }], cause });
