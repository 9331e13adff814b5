// A separate process that keeps connections busy with POST requests. It sends each request after the response to the previous one.
// `agent` uses node:http as programs do. `raw` writes the same bytes to sockets, and costs as little CPU time as possible.
import { Agent, request } from 'node:http';
import { connect } from 'node:net';

export type Client = 'agent' | 'raw';
export type Load = {
  client: Client;
  port: number;
  path: string;
  key: string | null;
  body: string;
  connections: number;
  forMs: number;
};
export type Answered = { perSecond: number; answered: number; refused: number };

type Caller = { load: Load; headers: Record<string, string>; note(status: number): boolean };

const HEAD_END = Buffer.from('\r\n\r\n');

async function run(load: Load): Promise<Answered> {
  const headers = {
    host: `127.0.0.1:${load.port}`,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(load.body)),
    ...(load.key === null ? {} : { authorization: `Bearer ${load.key}` }),
  };
  const startedMs = performance.now();
  let answered = 0;
  let refused = 0;
  /** Returns whether to continue. */
  const note = (status: number): boolean => {
    if (status >= 200 && status < 300) answered++;
    else refused++;
    return performance.now() < startedMs + load.forMs;
  };
  const call = load.client === 'raw' ? callRaw : callByAgent;
  await Promise.all(Array.from({ length: load.connections }, () => call({ load, headers, note })));
  return { answered, refused, perSecond: Math.round((answered / (performance.now() - startedMs)) * 1_000) };
}

async function callByAgent({ load, headers, note }: Caller): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const { port, path } = load;
  const once = () =>
    new Promise<number>((resolve, reject) => {
      const sent = request({ agent, port, path, host: '127.0.0.1', method: 'POST', headers }, (answer) => {
        answer.on('end', () => resolve(answer.statusCode ?? 0)).on('error', reject);
        answer.resume();
      });
      sent.on('error', reject).end(load.body);
    });
  while (note(await once()));
  agent.destroy();
}

function callRaw({ load, headers, note }: Caller): Promise<void> {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const bytes = Buffer.from([`POST ${load.path} HTTP/1.1`, ...lines, '', load.body].join('\r\n'));
  return new Promise((resolve, reject) => {
    const answer = new AnswerReader();
    const onClose = () => reject(new Error('the server closed a connection'));
    const callback = (length: number): boolean => {
      const status = answer.read(length);
      if (status === null) return true;
      if (note(status)) socket.write(bytes);
      else socket.off('close', onClose).end(resolve);
      return true;
    };
    const onread = { buffer: () => answer.room(), callback };
    const socket = connect({ port: load.port, host: '127.0.0.1', noDelay: true, onread });
    socket.on('connect', () => socket.write(bytes));
    socket.on('error', reject).on('close', onClose);
  });
}

/** Finds the end of a response. It reuses one buffer, and parses the head only if its length has changed. */
class AnswerReader {
  readonly #bytes = Buffer.alloc(64 * 1_024);
  #filled = 0;
  #knownLength = -1;

  room(): Buffer {
    return this.#bytes.subarray(this.#filled);
  }

  /** The status of the response, once it is complete. */
  read(length: number): number | null {
    this.#filled += length;
    const bytes = this.#bytes.subarray(0, this.#filled);
    if (this.#filled !== this.#knownLength && !holdsAnswer(bytes)) return null;
    this.#knownLength = this.#filled;
    this.#filled = 0;
    // HTTP/1.1 202
    return Number(bytes.toString('latin1', 9, 12));
  }
}

function holdsAnswer(bytes: Buffer): boolean {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) return false;
  const head = bytes.toString('latin1', 0, headEnd);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined) throw new Error(`an answer without content-length: ${head}`);
  return bytes.length >= headEnd + HEAD_END.length + Number(length);
}

process.on('message', async (load: Load) => {
  process.send?.(await run(load));
});
