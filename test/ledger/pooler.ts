/** Stands between a client and PostgreSQL as a pooler does: it makes up process ids, or drops the settings that a client asks for. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { onTestFinished } from 'vitest';
import { placeOf } from './database-road.ts';

export type PoolerHabits = {
  makesUpIds?: boolean;
  dropsSettings?: boolean;
  /** Ends a connection at its first prepared statement, which is the check of a new session. */
  hangsUp?: boolean;
  /** Passes such a statement on only when this is resolved. */
  holdsBack?: Promise<void>;
};

const PARSE = 0x50;

/** The address of a pooler in front of `target`, until the test has finished. A test may change its habits meanwhile. */
export async function openPooler(target: string, habits: PoolerHabits): Promise<string> {
  const place = placeOf(new URL(target));
  const server = createServer((near) => {
    const far = connect(place);
    const end = () => {
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) socket.on('error', end).on('close', end);
    near.once('data', (startup: Buffer) => {
      far.write(habits.dropsSettings ? withoutSettings(startup) : startup);
      near.on('data', async (bytes: Buffer) => {
        if (bytes[0] === PARSE) await habits.holdsBack;
        if (bytes[0] === PARSE && habits.hangsUp) end();
        else far.write(bytes);
      });
    });
    far.on('data', (bytes: Buffer) => near.write(habits.makesUpIds ? withMadeUpId(bytes) : bytes));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return url.href;
}

/** A startup message is its length, the version, and pairs of names and values. */
function withoutSettings(startup: Buffer): Buffer {
  const texts = startup.subarray(8).toString('latin1').split('\0');
  const kept: string[] = [];
  for (let i = 0; texts[i]; i += 2) {
    const [name, value] = [texts[i] as string, texts[i + 1] as string];
    if (['user', 'database', 'application_name', 'client_encoding'].includes(name)) kept.push(name, value);
  }
  const body = Buffer.from(`${kept.join('\0')}\0\0`, 'latin1');
  const head = Buffer.from(startup.subarray(0, 8));
  head.writeInt32BE(8 + body.length, 0);
  return Buffer.concat([head, body]);
}

/** BackendKeyData: `K`, a length of 12, the process id and a secret. */
function withMadeUpId(bytes: Buffer): Buffer {
  const at = bytes.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]));
  if (at >= 0) bytes.writeInt32BE(0x1234_5678, at + 5);
  return bytes;
}
