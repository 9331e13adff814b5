import type { IncomingMessage } from 'node:http';

/**
 * How much of a refused body is read and discarded: twice the largest body that a route accepts. A body over a limit is seldom larger than that,
 * and a client that sends more would make the server read without end.
 */
const MOST_BYTES = 67_108_864;
/** As long as a whole request may take to arrive. */
const MOST_MS = 30_000;

/**
 * Ends the connection of a request after its response, although the client still sends the body. If the server closed the connection at once,
 * the operating system would reset it, and a client that sends everything before it reads would lose the response. So the server only stops
 * writing, discards what arrives, and closes when the client has finished, or after a limit. Call it before the response is sent.
 */
export function lingerAfterResponse(message: IncomingMessage): void {
  const { socket } = message;
  let left = MOST_BYTES;
  let isAnswered = false;
  const closeIfOver = () => {
    if (isAnswered && (left < 0 || message.complete)) socket.destroy();
  };
  message
    .on('data', (chunk: Buffer) => {
      left -= chunk.length;
      closeIfOver();
    })
    .on('error', () => {})
    .on('end', closeIfOver)
    .resume();
  // Node hides the bytes of a message that nobody has begun to read when its response ends, and they must be counted.
  message.read(0);
  // Node calls this when the last response of a connection is written.
  socket.destroySoon = () => {
    isAnswered = true;
    socket.end();
    const timer = setTimeout(() => socket.destroy(), MOST_MS);
    timer.unref();
    socket.once('close', () => clearTimeout(timer));
    closeIfOver();
  };
}
