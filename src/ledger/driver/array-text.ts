// Arrays as text, for clients that do not send our binary arrays.
import { HEADER_BYTES, OID } from './binary-array.ts';

/** The text of an array of PostgreSQL: `{"one",NULL}`. */
export const literalOf = (items: readonly (string | null)[]): string =>
  `{${items.map((item) => (item === null ? 'NULL' : `"${item.replace(/["\\]/g, '\\$&')}"`)).join(',')}}`;

/** The text of an array that `binary-array.ts` has written. */
export function arrayText(array: Buffer): string {
  const toText = ELEMENTS.get(array.readInt32BE(8));
  if (toText === undefined) throw new TypeError(`No text is known for arrays of type ${array.readInt32BE(8)}.`);
  const items: (string | null)[] = [];
  for (let offset = HEADER_BYTES; offset < array.length; ) {
    const length = array.readInt32BE(offset);
    offset += 4;
    items.push(length < 0 ? null : toText(array.subarray(offset, offset + length)));
    offset += Math.max(0, length);
  }
  return literalOf(items);
}

const utf8 = (bytes: Buffer): string => bytes.toString('utf8');

const ELEMENTS: ReadonlyMap<number, (bytes: Buffer) => string> = new Map([
  [OID.int2, (bytes) => String(bytes.readInt16BE())],
  [OID.int4, (bytes) => String(bytes.readInt32BE())],
  [OID.int8, (bytes) => String(bytes.readBigInt64BE())],
  [OID.float4, (bytes) => String(bytes.readFloatBE())],
  [OID.text, utf8],
  [OID.json, utf8],
  // After the version of the form.
  [OID.jsonb, (bytes) => utf8(bytes.subarray(1))],
  [OID.uuid, (bytes) => bytes.toString('hex')],
  [OID.bool, (bytes) => (bytes[0] === 1 ? 't' : 'f')],
  [OID.bytea, (bytes) => `\\x${bytes.toString('hex')}`],
]);
