import { Readable } from 'node:stream';
import type { Deadline } from './deadline.ts';
import type { Reply } from './exchange.ts';
import { EgressFault, exchangeFault, type FaultCode } from './fault.ts';

/** How a streamed body ends when it does not end well. */
class EgressBodyError extends Error {
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
  /** The answer to HEAD has a length and no body. */
  readonly announcesBody: boolean;
};

export async function readWhole(params: BodyParams): Promise<{ body: Uint8Array; isTruncated: boolean }> {
  const pieces: Buffer[] = [];
  let isTruncated = false;
  for await (const piece of boundedPieces(params, () => (isTruncated = true))) pieces.push(piece);
  return { body: Buffer.concat(pieces), isTruncated };
}

/** What comes of the body within a time. A body that drips, stops or breaks off changes nothing of the answer. */
export async function readBeginning(
  params: BodyParams,
  waitMs: number,
): Promise<{ body: Uint8Array; isTruncated: boolean }> {
  const pieces: Buffer[] = [];
  let isTruncated = false;
  const callOff = params.deadline.endAfter(waitMs, new EgressFault('TIMEOUT', `the body took over ${waitMs} ms`));
  try {
    for await (const piece of boundedPieces(params, () => (isTruncated = true))) pieces.push(piece);
  } catch {
    isTruncated = true;
  } finally {
    callOff();
  }
  return { body: Buffer.concat(pieces), isTruncated };
}

/** The deadline runs until the stream is closed; a reader that takes its time is not held against the server. */
export function streamOut(params: BodyParams, onClose: () => void): Readable {
  const { signal } = params.deadline;
  const pieces = boundedPieces(params, () => undefined);
  const fail = (error: unknown) => stream.destroy(new EgressBodyError(exchangeFault(error)));
  const onEnd = () => fail(signal.reason);
  const stream = new Readable({
    read: () => {
      pieces.next().then(({ done, value }) => stream.push(done ? null : value), fail);
    },
    // At once, even while a read waits for the network: closing the connection is what ends it.
    destroy: (error, done) => {
      signal.removeEventListener('abort', onEnd);
      onClose();
      done(error);
    },
  });
  // Who reads gets the error in any case; who has gone away must not bring down the process.
  stream.on('error', () => undefined);
  signal.addEventListener('abort', onEnd, { once: true });
  if (signal.aborted) onEnd();
  return stream;
}

/** Bytes are counted as they come: a length that the server announces only ever serves to stop earlier. */
async function* boundedPieces(params: BodyParams, onTruncate: () => void): AsyncGenerator<Buffer> {
  const { reply, maxBodyBytes, overflow, announcesBody } = params;
  const tooLarge = new EgressFault('TOO_LARGE', `the body is longer than ${maxBodyBytes} bytes`);
  let room = maxBodyBytes;
  const announced = announcesBody ? Number(reply.headers['content-length'] ?? 0) : 0;
  if (overflow === 'fail' && announced > maxBodyBytes) throw tooLarge;
  for await (const piece of timedPieces(params)) {
    if (piece.length <= room) {
      room -= piece.length;
      yield piece;
      continue;
    }
    if (overflow === 'fail') throw tooLarge;
    onTruncate();
    if (room > 0) yield piece.subarray(0, room);
    return;
  }
}

/** The idle timer runs only while we wait for the network. */
async function* timedPieces({ reply, deadline, idleTimeoutMs }: BodyParams): AsyncGenerator<Buffer> {
  const pieces = reply.body[Symbol.asyncIterator]();
  const fault = new EgressFault('TIMEOUT', `no byte came for ${idleTimeoutMs} ms`);
  try {
    for (;;) {
      const callOff = deadline.endAfter(idleTimeoutMs, fault);
      const next = await pieces.next().finally(callOff);
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    deadline.signal.throwIfAborted();
    throw exchangeFault(error);
  }
}
