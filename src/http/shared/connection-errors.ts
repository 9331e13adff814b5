import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { AppError } from '../../core/errors.ts';
import { renderPlainly } from './errors.ts';

type ConnectionError = Error & { code?: string };

/** What is no HTTP, or too slow or too long to become a request, is answered here: no route ever sees it. */
export function answerConnectionError(error: ConnectionError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = complaint(error.code);
  const requestId = randomUUID();
  const body = JSON.stringify(renderPlainly(new AppError('INVALID_REQUEST', { message }), requestId));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

function complaint(code: string | undefined): { status: number; message: string } {
  if (code === 'HPE_HEADER_OVERFLOW') return { status: 431, message: 'The headers are larger than 16 KiB.' };
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { status: 408, message: 'The request did not arrive in time.' };
  return { status: 400, message: 'This is not a valid HTTP request.' };
}
