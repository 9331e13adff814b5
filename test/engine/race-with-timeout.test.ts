import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { raceWithTimeout } from '../../src/engine/race-with-timeout.ts';

const never = new Promise<string>(() => {});

test('work that ends in time gives its value or its error', async () => {
  expect(await raceWithTimeout(Promise.resolve('done'), 60_000, () => 'late')).toBe('done');
  await expect(raceWithTimeout(Promise.reject(new Error('no')), 60_000, () => 'late')).rejects.toThrow('no');
});

test('work that takes longer gives what the caller says: a value or an error', async () => {
  expect(await raceWithTimeout(never, 1, () => 'late')).toBe('late');
  const late = () => {
    throw new Error('too late');
  };
  await expect(raceWithTimeout(never, 1, late)).rejects.toThrow('too late');
});

test('a response that arrived while the process was stopped is in time', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const caller = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [peer] = await Promise.all([once(server, 'connection').then(([socket]) => socket), once(caller, 'connect')]);
  onTestFinished(() => {
    caller.destroy();
    peer.destroy();
    server.close();
  });
  const answered = once(caller, 'data').then(([data]) => String(data));
  const raced = raceWithTimeout(answered, 1, () => 'late');
  peer.write('in time');
  // Nothing of this process runs meanwhile, and then the timer is due first.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  expect(await raced).toBe('in time');
});
