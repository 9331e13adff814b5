import { AppError } from '../../core/errors.ts';
import { MAX_CHECKPOINT_BYTES } from '../../core/payload.ts';

const BYTES = 0;
const JSON_TEXT = 1;

/** Bytes are stored as they are, anything else as JSON; the first byte says which. */
export function encodeCheckpoint(state: unknown): Uint8Array {
  const body = state instanceof Uint8Array ? state : Buffer.from(JSON.stringify(state ?? null));
  if (body.byteLength > MAX_CHECKPOINT_BYTES) {
    throw new AppError('INVALID_REQUEST', {
      message: `A checkpoint has at most ${MAX_CHECKPOINT_BYTES} bytes, this one ${body.byteLength}.`,
    });
  }
  return Buffer.concat([Buffer.of(state instanceof Uint8Array ? BYTES : JSON_TEXT), body]);
}

export function decodeCheckpoint(stored: Uint8Array): unknown {
  const body = stored.subarray(1);
  return stored[0] === BYTES ? new Uint8Array(body) : JSON.parse(Buffer.from(body).toString());
}
