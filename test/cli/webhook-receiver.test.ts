import { afterEach, describe, expect, it } from 'vitest';
import { openReceiver, type Received, type Receiver, type ReceiverMode } from '../../src/simulator/webhook-receiver.ts';

let receiver: Receiver;
afterEach(() => receiver.close());

type Sent = { id?: string; label?: string; signal?: AbortSignal };

const send = (mode: ReceiverMode, { id = 'msg_1', label, signal }: Sent = {}): Promise<Response> =>
  fetch(receiver.url(mode, label), {
    ...{ method: 'POST', body: '{"a":1}', headers: { 'webhook-id': id }, redirect: 'manual', signal },
  });
const statusOf = async (mode: ReceiverMode, sent?: Sent): Promise<number> => (await send(mode, sent)).status;

describe('the webhook receiver', () => {
  it('answers as the path says, all modes at once', async () => {
    receiver = await openReceiver();
    expect(await statusOf('ok')).toBe(200);
    expect(await statusOf('5xx')).toBe(500);
    expect(await statusOf('gone')).toBe(410);
    expect(await statusOf('slow?ms=1')).toBe(200);
    expect(await statusOf('redirect')).toBe(302);
    expect((await send('retry-after?s=7')).headers.get('retry-after')).toBe('7');
    expect(await statusOf('retry-after?s=7')).toBe(200);
  });

  it('counts the attempts of each message apart', async () => {
    receiver = await openReceiver();
    const answers: number[] = [];
    for (const id of ['a', 'b', 'a', 'a', 'b']) answers.push(await statusOf('5xx-then-ok?times=1', { id }));
    expect(answers).toEqual([500, 500, 200, 200, 200]);
  });

  it('leaves a caller without an answer, once or for good, and lets go of it when it closes', async () => {
    receiver = await openReceiver();
    const gaveUp = new AbortController();
    const first = send('timeout?times=1', { signal: gaveUp.signal });
    await receiver.until((received) => received.length === 1);
    gaveUp.abort();
    await expect(first).rejects.toThrow();
    expect(await statusOf('timeout?times=1')).toBe(200);
    const forever = send('timeout');
    await receiver.until((received) => received.length === 3);
    await receiver.close();
    await expect(forever).rejects.toThrow();
  });

  it('keeps what it received, told apart by labels, and verifies where it can', async () => {
    const verify = ({ headers, body }: Pick<Received, 'headers' | 'body'>) => headers['webhook-id'] === 'good' && body === '{"a":1}';
    receiver = await openReceiver({ verify });
    await send('ok', { id: 'good', label: 'job/1' });
    await send('ok', { id: 'bad' });
    expect(receiver.received()).toMatchObject([
      { path: '/ok/job%2F1', body: '{"a":1}', messageId: 'good', verified: true, at: expect.any(Date) },
      { path: '/ok', messageId: 'bad', verified: false },
    ]);
  });

  it('says nothing of signatures without anything to verify with', async () => {
    receiver = await openReceiver();
    await fetch(receiver.url('ok'), { method: 'POST' });
    expect(receiver.received()).toMatchObject([{ messageId: null, verified: null }]);
  });
});
