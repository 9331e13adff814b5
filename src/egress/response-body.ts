import { Readable } from 'node:stream';
import type { Deadline } from './deadline.ts';
import type { Reply } from './exchange.ts';
import { EgressFault, exchangeFault, type FaultCode } from './fault.ts';

/** The error of a streamed body. */
export class EgressBodyError extends Error {
  override readonly name = 'EgressBodyError';
  readonly code: FaultCode;

  constructor(fault: EgressFault) {
    super(fault.message);
    this.code = fault.code;
  }
}

export type BodyParams = {
  readonly reply: Reply;
  readonly deadline: Deadline;
  readonly idleTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly overflow: 'truncate' | 'fail';
  /** False for HEAD, whose response has a length but no body. */
  readonly announcesBody: boolean;
};

type Body = { body: Uint8Array; isTruncated: boolean };

/**
 * Reads the body up to `maxBodyBytes`. With `waitMs` it reads only for that long, and a slow or broken body is truncated instead of
 * failing the request.
 */
export async function readBody(params: BodyParams, waitMs: number | undefined): Promise<Body> {
  const pieces: Buffer[] = [];
  let isTruncated = false;
  const fault = () => new EgressFault('TIMEOUT', `the body took longer than ${waitMs} ms`);
  const cancel = waitMs === undefined ? () => {} : params.deadline.endAfter(waitMs, fault);
  try {
    for await (const piece of boundedPieces(params, () => (isTruncated = true))) pieces.push(piece);
  } catch (error) {
    if (waitMs === undefined) throw error;
    isTruncated = true;
  } finally {
    cancel();
  }
  return { body: Buffer.concat(pieces), isTruncated };
}

/** How much arrives while the reader is busy, for example with a disk. */
const READ_AHEAD_BYTES = 524_288;

/** The deadline runs until the stream is closed. The idle timeout does not count the time of a slow reader. */
export function streamOut(params: BodyParams, onClose: () => void): Readable {
  const { deadline } = params;
  const pieces = boundedPieces(params, () => undefined);
  const fail = (error: unknown) => stream.destroy(new EgressBodyError(exchangeFault(error)));
  let offDeadline = () => {};
  const stream = new Readable({
    highWaterMark: READ_AHEAD_BYTES,
    read: () => {
      pieces.next().then(({ done, value }) => stream.push(done ? null : value), fail);
    },
    // Closes the connection immediately, which also ends a pending read.
    destroy: (error, done) => {
      offDeadline();
      onClose();
      done(error);
    },
  });
  // Readers still receive the error. Without a reader it must not crash the process.
  stream.on('error', () => undefined);
  offDeadline = deadline.onOver(() => fail(deadline.fault));
  return stream;
}

/** Counts the bytes that arrive. The announced length is used only to fail early. */
async function* boundedPieces(params: BodyParams, onTruncate: () => void): AsyncGenerator<Buffer> {
  const { reply, maxBodyBytes, overflow, announcesBody } = params;
  const tooLarge = () => new EgressFault('TOO_LARGE', `the body is longer than ${maxBodyBytes} bytes`);
  let room = maxBodyBytes;
  const announced = announcesBody ? Number(reply.headers['content-length'] ?? 0) : 0;
  if (overflow === 'fail' && announced > maxBodyBytes) throw tooLarge();
  for await (const piece of timedPieces(params)) {
    if (piece.length <= room) {
      room -= piece.length;
      yield piece;
      continue;
    }
    if (overflow === 'fail') throw tooLarge();
    onTruncate();
    if (room > 0) yield piece.subarray(0, room);
    return;
  }
}

/** The idle timer runs only while a read waits for the network. */
async function* timedPieces({ reply, deadline, idleTimeoutMs }: BodyParams): AsyncGenerator<Buffer> {
  const pieces = reply.body.stream()[Symbol.asyncIterator]();
  const fault = () => new EgressFault('IDLE', `no data arrived for ${idleTimeoutMs} ms`);
  try {
    for (;;) {
      const cancel = deadline.endAfter(idleTimeoutMs, fault);
      const next = await pieces.next().finally(cancel);
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    deadline.throwIfOver();
    throw exchangeFault(error);
  }
}
