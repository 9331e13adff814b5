import { randomUUID } from 'node:crypto';

const FIRST = 0x1000_0000;
/** The last whose eight digits V8 writes from a small integer. */
const LAST = 0x7fff_ffff;
const COUNTED_DIGITS = 8;

let prefix = '';
let next = LAST;

/** A UUID. Nobody has to be kept from guessing the next, so they are counted: drawing and writing 16 bytes costs ten times as much. */
export function newRequestId(): string {
  if (next === LAST) {
    prefix = randomUUID().slice(0, -COUNTED_DIGITS);
    next = FIRST;
  }
  return prefix + (next++).toString(16);
}
