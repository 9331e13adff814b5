import { createHash, type Hash } from 'node:crypto';
import { lookUp } from '../dictionary.ts';
import { Issues } from '../issues.ts';
import { formatTimestamp, parseTimestamp } from '../timestamp.ts';
import { isSecretMember } from './secret-members.ts';
import { StepwiseSort } from './stepwise-sort.ts';

/** An object or array that the walk is inside. `names` is null for an array. While `sorting` is set, they are not complete. */
type Frame = {
  readonly value: object;
  names: readonly string[] | null;
  readonly length: number;
  sorting: StepwiseSort | null;
  next: number;
};

/** Work of one member, in addition to its text. */
const WORK_PER_MEMBER = 32;
/** Work of listing or sorting one name of an object. */
const WORK_PER_NAME = 16;
const SORTED_AT_ONCE = 8_192;
/** Paths are built only as far as a message shows them. */
const MAX_PATH = 200;

/**
 * Reads a governed payload once: looks for members whose names are those of secrets, and computes the hash of its canonical form. The
 * form is that of RFC 8785, with timestamps in UTC and milliseconds, so that equal instants have equal hashes.
 *
 * A payload may have 100 000 members or be thousands of levels deep. So the walk keeps its own stack, and the caller decides how much of
 * the work happens in one turn of the event loop.
 */
export class PayloadWalk {
  readonly #issues = new Issues();
  readonly #hash: Hash = createHash('sha256');
  readonly #frames: Frame[] = [];
  #pieces: string[] = [];
  #left = 0;

  constructor(payload: object) {
    this.#enter(payload);
  }

  get issues(): Issues['list'] {
    return this.#issues.list;
  }

  /** In hex. Call it once, after the walk has ended. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  /** Does about so much work, in characters. Returns whether the walk has ended. */
  step(work = Number.POSITIVE_INFINITY): boolean {
    this.#left = work;
    while (this.#left > 0 && !this.#issues.isFull) {
      const frame = this.#frames.at(-1);
      if (frame === undefined) break;
      if (frame.sorting !== null) this.#sort(frame, frame.sorting);
      else if (frame.next < frame.length) this.#member(frame);
      else this.#leave(frame);
    }
    this.#hash.update(this.#pieces.join(''));
    this.#pieces = [];
    return this.#frames.length === 0 || this.#issues.isFull;
  }

  #enter(value: object): void {
    const unsorted = Array.isArray(value) ? null : Object.keys(value);
    const isLarge = unsorted !== null && unsorted.length > SORTED_AT_ONCE;
    const sorting = isLarge ? new StepwiseSort(unsorted) : null;
    // The default sort compares UTF-16 code units, as the RFC requires.
    const names = unsorted === null || isLarge ? unsorted : unsorted.sort();
    this.#frames.push({ value, names, length: unsorted?.length ?? (value as unknown[]).length, sorting, next: 0 });
    this.#write(unsorted === null ? '[' : '{');
    if (unsorted !== null) this.#left -= unsorted.length * WORK_PER_NAME;
  }

  #sort(frame: Frame, sorting: StepwiseSort): void {
    const handled = sorting.step();
    this.#left -= handled * WORK_PER_NAME;
    if (handled > 0) return;
    frame.names = sorting.sorted;
    frame.sorting = null;
  }

  #leave({ names }: Frame): void {
    this.#write(names === null ? ']' : '}');
    this.#frames.pop();
  }

  #member(frame: Frame): void {
    const { value, names } = frame;
    const index = frame.next++;
    if (index > 0) this.#write(',');
    this.#left -= WORK_PER_MEMBER;
    if (names === null) {
      this.#value((value as unknown[])[index]);
      return;
    }
    const name = names[index] as string;
    if (isSecretMember(name)) this.#refuse(name);
    this.#write(`${JSON.stringify(name)}:`);
    this.#value(lookUp(value as Record<string, unknown>, name));
  }

  #value(value: unknown): void {
    if (typeof value === 'object' && value !== null) this.#enter(value);
    else this.#write(JSON.stringify(typeof value === 'string' ? canonicalText(value) : value));
  }

  #write(text: string): void {
    this.#pieces.push(text);
    this.#left -= text.length;
  }

  #refuse(name: string): void {
    const path = this.#path();
    const advice =
      'is the name of a secret, and payloads of governed jobs must not contain secrets: pass a reference to the secret instead';
    this.#issues.add(`${path}.${name}`, 'SECRET_IN_PAYLOAD', advice);
  }

  /** Where the walk is: `payload.mail.headers[2]`. */
  #path(): string {
    let path = 'payload';
    for (const [depth, { names, next }] of this.#frames.entries()) {
      if (depth === this.#frames.length - 1 || path.length > MAX_PATH) break;
      path += names === null ? `[${next - 1}]` : `.${names[next - 1]}`;
    }
    return path;
  }
}

/** A timestamp has at least the 17 characters of `2024-01-15T10:30Z`. */
const LEAST_TIMESTAMP = 17;
const MOST_TIMESTAMP = 40;
const DIGIT_ZERO = 48;
const DIGIT_NINE = 57;

function canonicalText(text: string): string {
  if (text.length < LEAST_TIMESTAMP || text.length > MOST_TIMESTAMP) return text;
  const first = text.charCodeAt(0);
  if (first < DIGIT_ZERO || first > DIGIT_NINE) return text;
  const parsed = parseTimestamp(text);
  return parsed.ok ? formatTimestamp(parsed.date) : text;
}
