import { connect } from 'node:net';
import type { HostileRequest } from './positions.ts';

/** Sends a request as it is, which no client would, and returns every status that came back. */
export function rawRequest(url: string, key: string, request: HostileRequest): Promise<number[]> {
  const { port, hostname } = new URL(url);
  const given = request.headers ?? [];
  const body = Buffer.from(request.body ?? '');
  const defaults: [string, string][] = [
    ['host', 'localhost'],
    ['authorization', `Bearer ${key}`],
    ...(request.body === undefined ? [] : [['content-type', 'application/json'] as [string, string]]),
  ];
  const headers = [
    ...defaults.filter(([name]) => !given.some(([other]) => other === name)),
    ...given,
    ['content-length', String(body.length)],
    ['connection', 'close'],
  ];
  const head = `${request.method} ${request.path} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    let text = '';
    const end = () => {
      socket.destroy();
      resolve([...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status)));
    };
    socket.setEncoding('latin1');
    socket.on('data', (part: string) => {
      text += part;
      // A stream of events goes on; its status is all that is wanted.
      if (text.includes('text/event-stream')) end();
    });
    socket.on('error', end);
    socket.on('close', end);
    socket.write(Buffer.concat([Buffer.from(head), body]));
  });
}
