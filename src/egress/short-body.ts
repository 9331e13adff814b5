import { Readable } from 'node:stream';
import { EgressFault, exchangeFault } from './fault.ts';
import { type BodyParams, EgressBodyError } from './response-body.ts';

/** Whether the response announces a body of at most `maxBytes`. Without a length, or with a wrong one, the body is a stream. */
export function isShort({ reply, announcesBody }: BodyParams, maxBytes: number): boolean {
  const length = reply.headers['content-length'];
  return announcesBody && length !== undefined && /^\d{1,9}$/.test(length) && Number(length) <= maxBytes;
}

/**
 * Reads a short body whole. Streams and their iterators cost a small file more than the request itself. Returns a stream that fails if the body
 * does not arrive, so callers see the failure of a body where they expect it.
 */
export async function readShort(params: BodyParams, onClose: () => void): Promise<Uint8Array | Readable> {
  try {
    return await gathered(params);
  } catch (error) {
    return failing(new EgressBodyError(params.deadline.fault ?? exchangeFault(error)));
  } finally {
    onClose();
  }
}

function gathered({ reply: { body }, deadline, idleTimeoutMs, maxBodyBytes }: BodyParams): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const pieces: Buffer[] = [];
  let length = 0;
  const timer = setTimeout(() => end(new EgressFault('IDLE', `no data arrived for ${idleTimeoutMs} ms`)), idleTimeoutMs);
  const offDeadline = deadline.onOver(() => end(deadline.fault));
  function end(error: Error | null): void {
    clearTimeout(timer);
    offDeadline();
    if (error !== null) reject(error);
    else resolve(pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces));
  }
  body.read({
    onPiece: (piece) => {
      timer.refresh();
      pieces.push(piece);
      length += piece.length;
      if (length > maxBodyBytes) end(new EgressFault('TOO_LARGE', `the body is longer than ${maxBodyBytes} bytes`));
    },
    onEnd: () => end(null),
    onError: end,
  });
  return promise;
}

function failing(error: Error): Readable {
  const stream = new Readable({ read: () => undefined });
  // Readers still receive the error. Without a reader it must not crash the process.
  stream.on('error', () => undefined);
  return stream.destroy(error);
}
