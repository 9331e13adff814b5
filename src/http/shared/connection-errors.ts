import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { AppError } from '../../core/errors.ts';
import { CONSTANT_HEADERS } from './constant-headers.ts';
import { renderPlainly } from './errors.ts';

type ConnectionError = Error & { code?: string; isSlow?: boolean };

/** Connections whose request may take as long as its bytes need. */
const patient = new WeakSet<Socket>();

/** Exempts a request from the time limit for its arrival while `work` receives it. The rate at which it must arrive still applies. */
export async function withoutTimeLimit<T>(socket: Socket, work: () => Promise<T>): Promise<T> {
  patient.add(socket);
  try {
    return await work();
  } finally {
    patient.delete(socket);
  }
}

/** Responds to bytes that are not a complete HTTP request: invalid, too slow or too long. No route handles them. */
export function answerConnectionError(error: ConnectionError, socket: Socket): void {
  // Node reports the limit for the whole request once, and leaves the connection to us.
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && error.isSlow !== true && patient.has(socket)) return;
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = describe(error.code);
  const requestId = randomUUID();
  const body = JSON.stringify(renderPlainly(new AppError('INVALID_REQUEST', { message }), requestId));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    ...Object.entries(CONSTANT_HEADERS).map(([name, value]) => `${name}: ${value}`),
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

function describe(code: string | undefined): { status: number; message: string } {
  if (code === 'HPE_HEADER_OVERFLOW') return { status: 431, message: 'The headers are larger than 16 KiB. Send fewer or shorter ones.' };
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { status: 408, message: 'The request did not arrive in time. Send it again.' };
  return {
    status: 400,
    message: 'This is not a valid HTTP request. Check that the client uses HTTP/1.1 without TLS on this port.',
  };
}
