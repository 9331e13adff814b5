// Array parameters in PostgreSQL's binary format. node-postgres sends a Buffer as it is. It would write an array as text, and then this
// process escapes every element and the server parses it.
//
// Measured against a text encoder of 20 lines: whole statements, payloads of 220 bytes, no flush of the log, medians of three runs:
//                          binary      text
//   submit 1 job           0.34 ms     0.34 ms
//   submit 50 alike        0.92 ms     1.03 ms   + 13 %
//   submit 50 of 2 types   1.10 ms     1.25 ms   + 13 %
//   submit 1000 alike      9.8 ms      11.8 ms   + 20 %
//   submit 1000 of 2 types 13.8 ms     16.2 ms   + 17 %
//   take 64 jobs           1.74 ms     1.74 ms
//   complete 64 jobs       0.97 ms     1.05 ms   + 8 %

export const HEADER_BYTES = 20;

export const OID = {
  int2: 21,
  int4: 23,
  int8: 20,
  float4: 700,
  text: 25,
  json: 114,
  jsonb: 3802,
  uuid: 2950,
  bool: 16,
  bytea: 17,
} as const;

function header(buffer: Buffer, params: { oid: number; length: number; hasNull: boolean }): void {
  buffer.writeInt32BE(1, 0);
  buffer.writeInt32BE(params.hasNull ? 1 : 0, 4);
  buffer.writeInt32BE(params.oid, 8);
  buffer.writeInt32BE(params.length, 12);
  buffer.writeInt32BE(1, 16);
}

function emptyArray(oid: number): Buffer {
  const buffer = Buffer.alloc(12);
  buffer.writeInt32BE(oid, 8);
  return buffer;
}

/** Elements of one width. `write` writes a value at an offset. */
function fixedArray<T>(
  values: readonly (T | null)[],
  shape: { oid: number; width: number; write: (buffer: Buffer, value: T, offset: number) => void },
): Buffer {
  if (values.length === 0) return emptyArray(shape.oid);
  const buffer = Buffer.allocUnsafe(HEADER_BYTES + values.length * (4 + shape.width));
  let offset = HEADER_BYTES;
  let hasNull = false;
  for (const value of values) {
    if (value === null) {
      hasNull = true;
      offset = buffer.writeInt32BE(-1, offset);
    } else {
      offset = buffer.writeInt32BE(shape.width, offset);
      shape.write(buffer, value, offset);
      offset += shape.width;
    }
  }
  header(buffer, { oid: shape.oid, length: values.length, hasNull });
  return buffer.subarray(0, offset);
}

function stringArray(values: readonly (string | null)[], oid: number): Buffer {
  if (values.length === 0) return emptyArray(oid);
  let size = HEADER_BYTES;
  let length = 0;
  let measured: string | null = null;
  for (const value of values) {
    if (value !== null && value !== measured) {
      measured = value;
      length = Buffer.byteLength(value);
    }
    size += 4 + (value === null ? 0 : length);
  }
  const buffer = Buffer.allocUnsafe(size);
  let offset = HEADER_BYTES;
  let hasNull = false;
  let previous: string | null = null;
  let previousOffset = 0;
  for (const value of values) {
    if (value === null) {
      hasNull = true;
      offset = buffer.writeInt32BE(-1, offset);
    } else if (value === previous) {
      // Queues and types repeat, and copying bytes is much cheaper than encoding them again.
      const end = previousOffset + 4 + buffer.readInt32BE(previousOffset);
      buffer.copyWithin(offset, previousOffset, end);
      offset += end - previousOffset;
    } else {
      previous = value;
      previousOffset = offset;
      const length = buffer.write(value, offset + 4, 'utf8');
      buffer.writeInt32BE(length, offset);
      offset += 4 + length;
    }
  }
  header(buffer, { oid, length: values.length, hasNull });
  return buffer;
}

export const textArray = (values: readonly (string | null)[]): Buffer => stringArray(values, OID.text);
export const jsonArray = (values: readonly (string | null)[]): Buffer => stringArray(values, OID.json);

/** The binary form of jsonb is its text after one byte, the version of the form. */
export const jsonbArray = (values: readonly (string | null)[]): Buffer =>
  stringArray(
    values.map((value) => (value === null ? null : `\u0001${value}`)),
    OID.jsonb,
  );

export function byteaArray(values: readonly (Uint8Array | null)[]): Buffer {
  if (values.length === 0) return emptyArray(OID.bytea);
  const parts: Buffer[] = [Buffer.alloc(HEADER_BYTES)];
  let hasNull = false;
  for (const value of values) {
    const length = Buffer.allocUnsafe(4);
    length.writeInt32BE(value === null ? -1 : value.byteLength, 0);
    parts.push(length);
    if (value === null) hasNull = true;
    else parts.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
  }
  const buffer = Buffer.concat(parts);
  header(buffer, { oid: OID.bytea, length: values.length, hasNull });
  return buffer;
}

export const uuidArray = (values: readonly (string | null)[]): Buffer => fixedArray(values, { oid: OID.uuid, width: 16, write: writeUuid });

let lastUuid = '';
const lastUuidBytes = Buffer.alloc(16);

/** Most batches belong to one org, whose id is parsed once. */
function writeUuid(buffer: Buffer, value: string, offset: number): void {
  if (value !== lastUuid) {
    readUuid(value);
    lastUuid = value;
  }
  buffer.set(lastUuidBytes, offset);
}

/** Parsing digit by digit takes a quarter of the time of removing the dashes and decoding the rest. */
function readUuid(value: string): void {
  let at = 0;
  for (let byte = 0; byte < 16; byte++) {
    if (value.charCodeAt(at) === DASH) at++;
    lastUuidBytes[byte] = (digitOf(value.charCodeAt(at)) << 4) | digitOf(value.charCodeAt(at + 1));
    at += 2;
  }
}

const DASH = 45;
// 0-9 are 48-57; A-F and a-f end in 1-6.
const digitOf = (code: number): number => (code < 58 ? code - 48 : (code & 0x0f) + 9);

export const float4Array = (values: readonly (number | null)[]): Buffer =>
  fixedArray(values, {
    oid: OID.float4,
    width: 4,
    write: (buffer, value: number, offset) => buffer.writeFloatBE(value, offset),
  });

export const int2Array = (values: readonly (number | null)[]): Buffer =>
  fixedArray(values, { oid: OID.int2, width: 2, write: (buffer, value, offset) => buffer.writeInt16BE(value, offset) });

export const int4Array = (values: readonly (number | null)[]): Buffer =>
  fixedArray(values, { oid: OID.int4, width: 4, write: (buffer, value, offset) => buffer.writeInt32BE(value, offset) });

/** Safe integers only: sequences of the ledger stay far below 2^53. */
export const int8Array = (values: readonly (number | null)[]): Buffer => fixedArray(values, { oid: OID.int8, width: 8, write: writeInt8 });

function writeInt8(buffer: Buffer, value: number, offset: number): void {
  const high = Math.floor(value / 0x1_0000_0000);
  buffer.writeInt32BE(high, offset);
  buffer.writeUInt32BE(value - high * 0x1_0000_0000, offset + 4);
}

export const boolArray = (values: readonly (boolean | null)[]): Buffer =>
  fixedArray(values, {
    oid: OID.bool,
    width: 1,
    write: (buffer, value, offset) => buffer.writeUInt8(value ? 1 : 0, offset),
  });
