import { expect, test } from 'vitest';
import { type BodyReader, ReplyBody } from '../../src/egress/reply-body.ts';

/** The part of undici's controller that a body uses. */
function body() {
  const calls: string[] = [];
  const controller = { pause: () => calls.push('pause'), resume: () => calls.push('resume') };
  return { made: new ReplyBody(controller as never), calls };
}

function reader() {
  const seen: string[] = [];
  const made: BodyReader = {
    onPiece: (piece) => seen.push(String(piece)),
    onEnd: () => seen.push('(end)'),
    onError: (error) => seen.push(`(${error.message})`),
  };
  return { made, seen };
}

test('a reader gets what arrived before it came, and then what follows', () => {
  const { made } = body();
  const { made: read, seen } = reader();
  made.push(Buffer.from('a'));
  made.read(read);
  made.push(Buffer.from('b'));
  expect(made.isRead).toBe(false);
  made.end();
  expect(seen).toEqual(['a', 'b', '(end)']);
  expect(made.isRead).toBe(true);
});

test('a body that ended before somebody read it counts as read only afterwards', () => {
  const { made } = body();
  const { made: read, seen } = reader();
  made.push(Buffer.from('a'));
  made.end();
  expect(made.isRead).toBe(false);
  made.read(read);
  expect(seen).toEqual(['a', '(end)']);
  expect(made.isRead).toBe(true);
});

test('a failure reaches a reader that comes later, and the body does not count as read', () => {
  const { made } = body();
  const { made: read, seen } = reader();
  made.fail(new Error('cut off'));
  made.read(read);
  expect(seen).toEqual(['(cut off)']);
  expect(made.isRead).toBe(false);
});

test('the connection is not read any further while nobody takes the body', async () => {
  const { made, calls } = body();
  made.push(Buffer.alloc(65_535));
  expect(calls).toEqual([]);
  made.push(Buffer.alloc(1));
  expect(calls).toEqual(['pause']);
  const stream = made.stream();
  expect(calls).toContain('resume');
  for (let pushed = 0; pushed < 10; pushed++) made.push(Buffer.alloc(65_536));
  expect(calls.at(-1)).toBe('pause');
  made.end();
  let bytes = 0;
  for await (const piece of stream) bytes += piece.length;
  expect(bytes).toBe(11 * 65_536);
});
