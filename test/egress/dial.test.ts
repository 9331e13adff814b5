import { Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { parseIp } from '../../src/core/ip-address.ts';
import { type Candidate, dial } from '../../src/egress/dial.ts';
import { EgressFault } from '../../src/egress/fault.ts';
import { type Origin, openOrigin } from './origin.ts';

let origin: Origin | undefined;
afterEach(() => origin?.close());

function candidate(text: string): Candidate {
  return { text, address: parseIp(text)! };
}

/** A socket that says it is connected to whatever the test wants. */
function socketTo(remoteAddress: string | undefined): Socket {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress });
  process.nextTick(() => socket.emit('connect'));
  return socket;
}

const signal = new AbortController().signal;

describe('the peer', () => {
  test.each([
    ['93.184.216.34', '127.0.0.1'],
    ['93.184.216.34', '::ffff:127.0.0.1'],
    ['93.184.216.34', '::93.184.216.34'],
    ['93.184.216.34', undefined],
    ['93.184.216.34', 'nonsense'],
    ['2606:2800::1', '::1'],
    ['2606:2800::1', '127.0.0.1'],
    ['::ffff:93.184.216.34', '93.184.216.34'],
  ])('dialled as %s but found to be %s is refused and the socket destroyed [FR-14.55]', async (text, remote) => {
    const socket = socketTo(remote);
    const dialling = dial({ to: candidate(text), port: 80, signal, open: () => socket });
    await expect(dialling).rejects.toMatchObject({
      code: 'CONNECT',
      message: expect.stringContaining('another address'),
    });
    expect(socket.destroyed).toBe(true);
  });

  test.each([
    ['93.184.216.34', '93.184.216.34'],
    ['93.184.216.34', '::ffff:93.184.216.34'],
    ['93.184.216.34', '::ffff:5db8:d822'],
    ['2606:2800::1', '2606:2800:0:0::1'],
  ])('dialled as %s and found to be %s is the right one', async (text, remote) => {
    const socket = socketTo(remote);
    expect(await dial({ to: candidate(text), port: 80, signal, open: () => socket })).toBe(socket);
    socket.destroy();
  });
});

describe('dialling', () => {
  test('goes to the address as it is, of its family, without looking anything up', async () => {
    const asked: unknown[] = [];
    const open = (options: unknown) => {
      asked.push(options);
      return socketTo('2606:2800::1');
    };
    (await dial({ to: candidate('2606:2800::1'), port: 443, signal, open })).destroy();
    expect(asked).toEqual([expect.objectContaining({ host: '2606:2800::1', port: 443, family: 6, autoSelectFamily: false })]);
  });

  test('connects for real', async () => {
    origin = await openOrigin(() => null);
    const socket = await dial({ to: candidate('127.0.0.1'), port: origin.port, signal });
    expect(socket.remotePort).toBe(origin.port);
    socket.destroy();
  });

  test('a refused connection is a fault', async () => {
    origin = await openOrigin(() => null);
    await origin.close();
    await expect(dial({ to: candidate('127.0.0.1'), port: origin.port, signal })).rejects.toMatchObject({
      code: 'CONNECT',
    });
  });

  test('ends with the signal, before and while it connects, and leaves no socket', async () => {
    const caller = new AbortController();
    const sockets: Socket[] = [];
    const open = () => {
      const socket = new Socket();
      sockets.push(socket);
      return socket;
    };
    const params = { to: candidate('93.184.216.34'), port: 80, signal: caller.signal, open };
    const dialling = dial(params);
    const fault = new EgressFault('ABORTED', 'enough');
    caller.abort(fault);
    await expect(dialling).rejects.toBe(fault);
    expect(sockets.map((socket) => socket.destroyed)).toEqual([true]);
    await expect(dial(params)).rejects.toBe(fault);
    expect(sockets).toHaveLength(1);
  });
});
