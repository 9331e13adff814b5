import { AppError } from '../../core/errors.ts';
import { encodeState, MAX_CHECKPOINT_BYTES } from '../../core/payload.ts';

const BYTES = 0;
const JSON_TEXT = 1;

/** Bytes are stored unchanged, anything else as JSON. The first byte says which. */
export function encodeCheckpoint(state: unknown): Uint8Array {
  const body = state instanceof Uint8Array ? state : Buffer.from(stateText(state ?? null));
  if (body.byteLength > MAX_CHECKPOINT_BYTES) {
    throw new AppError('INVALID_REQUEST', {
      message: `The checkpoint has ${body.byteLength} bytes. At most ${MAX_CHECKPOINT_BYTES} are allowed.`,
    });
  }
  return Buffer.concat([Buffer.of(state instanceof Uint8Array ? BYTES : JSON_TEXT), body]);
}

function stateText(state: unknown): string {
  const encoded = encodeState(state);
  if (encoded.ok) return encoded.text;
  throw new AppError('NOT_SERIALIZABLE', { message: encoded.issue.message, details: [encoded.issue] });
}

export function decodeCheckpoint(stored: Uint8Array): unknown {
  const body = stored.subarray(1);
  return stored[0] === BYTES ? new Uint8Array(body) : JSON.parse(Buffer.from(body).toString());
}
