import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Deadline } from '../../src/egress/deadline.ts';
import { type BodyParams, streamOut } from '../../src/egress/response-body.ts';

const PIECE = Buffer.alloc(100_000, 'x');

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function bodyOf(source: PassThrough, deadline: Deadline): BodyParams {
  const reply = { status: 200, headers: {}, body: { stream: () => source, read: () => undefined }, close: () => source.destroy() };
  return { reply, deadline, idleTimeoutMs: 1_000, maxBodyBytes: 1e9, overflow: 'fail', announcesBody: true };
}

describe('the idle timer', () => {
  test('does not run while the reader takes its time', async () => {
    const source = new PassThrough();
    const deadline = new Deadline(1_000_000, undefined);
    const closed = Promise.withResolvers<void>();
    const stream = streamOut(bodyOf(source, deadline), closed.resolve);
    source.write(PIECE);
    source.end(PIECE);
    const pieces = stream[Symbol.asyncIterator]();
    let bytes = (await pieces.next()).value.length;
    // The rest fills the stream's buffer, so nothing is asked of the network.
    await vi.advanceTimersByTimeAsync(100_000);
    for (let next = await pieces.next(); !next.done; next = await pieces.next()) bytes += next.value.length;
    expect(bytes).toBe(2 * PIECE.length);
    await closed.promise;
    deadline.release();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('runs while the network is silent, anew for each piece', async () => {
    const source = new PassThrough();
    const deadline = new Deadline(1_000_000, undefined);
    const stream = streamOut(bodyOf(source, deadline), () => source.destroy());
    const pieces = stream[Symbol.asyncIterator]();
    for (const text of ['a', 'b', 'c']) {
      const next = pieces.next();
      await vi.advanceTimersByTimeAsync(900);
      source.write(text);
      expect(String((await next).value)).toBe(text);
    }
    const last = expect(pieces.next()).rejects.toMatchObject({ name: 'EgressBodyError', code: 'IDLE' });
    await vi.advanceTimersByTimeAsync(1_001);
    await last;
    deadline.release();
    expect(vi.getTimerCount()).toBe(0);
  });
});
