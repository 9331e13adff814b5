import type { Socket } from 'node:net';
import { EgressFault } from './fault.ts';

/** How long the message is that these bytes begin; null = not to be told yet. */
type LengthOf = (bytes: Buffer) => number | null;

export type Question = {
  readonly socket: Socket;
  readonly signal: AbortSignal;
  readonly say: Buffer;
  readonly lengthOf: LengthOf;
  readonly limit: number;
};

/**
 * Says something to a proxy and returns its one answer. Neither protocol lets a proxy speak unasked, and the target has not
 * been spoken to, so bytes behind the answer are an attempt to slip something in: they are refused.
 */
export async function askProxy(question: Question): Promise<Buffer> {
  const { socket, signal } = question;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let bytes = Buffer.alloc(0);
  const onReadable = () => {
    for (let piece = socket.read() as Buffer | null; piece !== null; piece = socket.read() as Buffer | null) {
      bytes = Buffer.concat([bytes, piece]);
      if (bytes.length > question.limit) break;
    }
    judge(bytes, question, { resolve, reject });
  };
  const onClose = () => reject(new EgressFault('PROXY', 'the proxy closed the connection'));
  const onAbort = () => reject(signal.reason);
  socket.on('readable', onReadable).once('close', onClose).once('end', onClose);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  else socket.write(question.say);
  try {
    return await promise;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    socket.off('readable', onReadable).off('close', onClose).off('end', onClose);
    signal.removeEventListener('abort', onAbort);
  }
}

type Outcome = { resolve(answer: Buffer): void; reject(fault: EgressFault): void };

function judge(bytes: Buffer, question: Question, outcome: Outcome): void {
  const length = question.lengthOf(bytes);
  if (length !== null && length < bytes.length) {
    outcome.reject(new EgressFault('PROXY', 'the proxy sent bytes that nobody asked for'));
  } else if (length === bytes.length) {
    outcome.resolve(bytes);
  } else if (bytes.length > question.limit) {
    outcome.reject(new EgressFault('PROXY', `the answer of the proxy is longer than ${question.limit} bytes`));
  }
}
