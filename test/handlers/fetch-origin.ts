/** A server with resources of many kinds, most of them bad. */
import { createHash } from 'node:crypto';
import { answerWith, type Script } from '../egress/origin.ts';

const HEAD = 'HTTP/1.1 200 OK\r\n';
export const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex');

export const bodyOf = (path: string): Buffer => {
  const size = Number(/(\d+)$/.exec(path)?.[1] ?? 0);
  return Buffer.alloc(size, sha256(path));
};

const ok = (body: Buffer, headers = ''): Buffer =>
  Buffer.concat([Buffer.from(`${HEAD}content-length: ${body.length}\r\n${headers}\r\n`), body]);

const endless: Script = (_, socket) => {
  socket.write(`${HEAD}\r\n`);
  const pour = () => {
    while (socket.writable && socket.write(Buffer.alloc(65_536)));
  };
  socket.on('drain', pour);
  pour();
  return null;
};

/** `elsewhere` is the port of another server of this kind. */
export const serveResources =
  (elsewhere: () => number): Script =>
  (seen, socket) => {
    const [, kind = '', rest = ''] = seen.path.replace(/\?.*/, '').split('/');
    switch (kind) {
      case 'size':
        return ok(bodyOf(seen.path), 'content-type: text/plain\r\n');
      case 'chunked': {
        const body = bodyOf(seen.path);
        const chunk = Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')]);
        return Buffer.concat([
          Buffer.from(`${HEAD}transfer-encoding: chunked\r\n\r\n`),
          body.length === 0 ? Buffer.from('0\r\n\r\n') : chunk,
        ]);
      }
      case 'hop': {
        const left = Number(rest);
        return answerWith(301, { location: left === 0 ? '/size/77' : `/hop/${left - 1}` });
      }
      case 'away':
        return answerWith(302, { location: `http://127.0.0.1:${elsewhere()}/size/5` });
      case 'status':
        return answerWith(Number(rest), Number(rest) === 429 ? { 'retry-after': '7' } : {}, 'nothing here');
      case 'drip': {
        const body = bodyOf(seen.path);
        socket.write(`${HEAD}content-length: ${body.length}\r\n\r\n`);
        let sent = 0;
        const drip = () => {
          if (sent < body.length && socket.writable) socket.write(body.subarray(sent, ++sent), () => setImmediate(drip));
        };
        drip();
        return null;
      }
      case 'cut':
        socket.end(`${HEAD}content-length: 100\r\n\r\nonly this`);
        return null;
      case 'stop':
        return `${HEAD}content-length: 100\r\n\r\nonly this`;
      case 'silent':
        return null;
      case 'longer':
        return `${HEAD}content-length: 4\r\n\r\nfour and more`;
      case 'announced':
        return `${HEAD}content-length: 99999999\r\n\r\n`;
      case 'endless':
        return endless(seen, socket);
      case 'gzip':
        return answerWith(200, { 'content-encoding': 'gzip' }, 'not really gzip');
      default:
        return answerWith(404);
    }
  };
