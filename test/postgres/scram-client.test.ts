import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { checkServer } from '../../src/postgres/check.ts';
import { openEmbedded } from '../../src/postgres/embedded.ts';
import { REQUIRE_SCRAM } from '../../src/postgres/scram-client.ts';
import { makeScratch, type Scratch, silent } from './scratch.ts';

const PASSWORD = 'a-password-that-nobody-may-see';
const OK = 0;
const CLEARTEXT = 3;
const MD5 = 5;

let scratch: Scratch;
let impostor: Server | undefined;
beforeAll(async () => {
  scratch = await makeScratch();
});
afterEach(() => impostor?.close());
afterAll(() => scratch.remove());

/** A program of somebody else at the address of our server. Returns what it hears after its demand. */
async function listenAs(demand: number): Promise<{ port: number; heard: () => string }> {
  let heard = '';
  impostor = createServer((socket) => {
    socket.on('error', silent);
    socket.once('data', () => {
      socket.on('data', (bytes) => {
        heard += bytes.toString('latin1');
      });
      const salt = demand === MD5 ? Buffer.from('salt') : Buffer.alloc(0);
      const head = Buffer.alloc(9);
      head.write('R');
      head.writeInt32BE(8 + salt.length, 1);
      head.writeInt32BE(demand, 5);
      const ready = demand === OK ? Buffer.from('Z\0\0\0\x05I', 'latin1') : Buffer.alloc(0);
      socket.write(Buffer.concat([head, salt, ready]));
    });
  }).listen(0, '127.0.0.1');
  await once(impostor, 'listening');
  return { port: (impostor.address() as AddressInfo).port, heard: () => heard };
}

it.each([
  ['asks for the password in clear text', CLEARTEXT],
  ['asks for it as MD5', MD5],
  ['asks for nothing', OK],
])('tells a server nothing that %s', async (_, demand) => {
  const { port, heard } = await listenAs(demand);
  const url = `postgres://millrace:${PASSWORD}@127.0.0.1:${port}/millrace?${REQUIRE_SCRAM}`;
  await expect(checkServer(url)).rejects.toMatchObject({
    code: 'DATABASE_UNREACHABLE',
    message: expect.stringContaining('does not prove that it knows the password'),
  });
  expect(heard()).toBe('');
});

it('demands this of the embedded server', async () => {
  const server = await openEmbedded({ home: await scratch.preparedHome(), onNotice: silent });
  expect(new URL(server.url).search).toBe(`?${REQUIRE_SCRAM}`);
  await server.close();
});
