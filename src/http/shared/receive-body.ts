import type { IncomingMessage } from 'node:http';
import type { BodyHold } from './body-budget.ts';
import { bodyTooLarge } from './safe-json.ts';
import type { Uploads } from './uploads.ts';

type Receiving = { limit: number; hold: BodyHold; uploads: Uploads };
/** Null instead of the bytes after an error. */
type Received = (error: Error | null, bytes: Buffer | null) => void;

/** Collects the bytes of a body, and counts them while they arrive. An error ends the upload: the caller closes the connection. */
export function receive(message: IncomingMessage, { limit, hold, uploads }: Receiving, done: Received): void {
  const announced = Number(message.headers['content-length'] ?? 0);
  try {
    if (announced > limit) throw bodyTooLarge(limit);
    hold.expect(announced);
  } catch (error) {
    done(error as Error, null);
    return;
  }
  const chunks: Buffer[] = [];
  const upload = uploads.begin(message);
  const stop = () => {
    uploads.end(upload);
    message.off('data', onData).off('end', onEnd).off('error', onError);
  };
  const onData = (chunk: Buffer) => {
    upload.received += chunk.length;
    try {
      if (upload.received > limit) throw bodyTooLarge(limit);
      hold.take(chunk.length);
      chunks.push(chunk);
    } catch (error) {
      onError(error as Error);
    }
  };
  const onEnd = () => {
    stop();
    const [first] = chunks;
    done(null, first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks, upload.received));
  };
  const onError = (error: Error) => {
    stop();
    // A connection that breaks later must not end the process.
    message.on('error', () => {});
    done(error, null);
  };
  message.on('data', onData).on('end', onEnd).on('error', onError);
}
