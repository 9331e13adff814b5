import { expect, onTestFinished, test } from 'vitest';
import { Millrace } from '../../src/index.ts';
import { useLedger } from '../ledger/fixture.ts';
import { Gate } from '../library/fixture.ts';
import { follow, type Received, serveEvents } from './events-fixture.ts';

const ledger = useLedger();

type Work = Parameters<Millrace['register']>[0]['handler'];

/** A process that runs jobs of one org. The server of the streams is another one. */
async function worker(orgId: string, handler: Work): Promise<Millrace> {
  const millrace = await Millrace.open({ database: ledger.db.url, org: orgId });
  onTestFinished(() => millrace.close({ grace: 0 }));
  const type = `work-${orgId}`;
  millrace.register({ type, handler });
  await millrace.start();
  return millrace;
}

const submit = async (millrace: Millrace, orgId: string) => (await millrace.submit({ type: `work-${orgId}`, payload: {} })).jobId;

const short = ({ event, data }: Received): string =>
  event === 'job.progress' ? `${data.percent} %` : event === 'job.log' ? `${data.message}` : event;

test('the stream of a job has its progress and its lines on request, in the order of time, and resumes after a line', async () => {
  const orgId = await ledger.newOrg();
  const gate = new Gate();
  const millrace = await worker(orgId, async (context) => {
    context.log('info', 'begins', { size: 3 });
    await context.reportProgress(30, 'a third');
    await gate.pass();
    context.log('warn', 'goes on\nwith: a second line\n\nid: 7');
    await context.reportProgress(100);
  });
  const jobId = await submit(millrace, orgId);
  await gate.reached();
  const server = await serveEvents(ledger);
  const path = `/jobs/${jobId}/events`;
  const stream = await follow(server, orgId, `${path}?include=progress&include=log`);
  const early = await stream.take(4);
  expect(early.map(short).slice(0, 2)).toEqual(['job.scheduled', 'job.running']);
  const [line, progress] = [early.find(({ event }) => event === 'job.log'), early.find(({ event }) => event === 'job.progress')];
  expect(line?.data).toEqual({
    ...{ job_id: jobId, type: `work-${orgId}`, level: 'info', message: 'begins', fields: { size: 3 }, attempt: 1 },
    timestamp: expect.stringMatching(/Z$/),
  });
  expect(progress?.data).toEqual({
    ...{ job_id: jobId, type: `work-${orgId}`, percent: 30, message: 'a third', attempt: 1, timestamp: expect.stringMatching(/Z$/) },
  });
  // Progress has no id, so that a client that resumes gets the newest.
  expect([line?.id !== '', progress?.id !== '']).toEqual([true, false]);
  gate.open();
  const late = (await stream.rest()).map(short);
  expect(late.toSorted()).toEqual(['100 %', 'goes on\nwith: a second line\n\nid: 7', 'job.completed']);
  expect(late.at(-1)).toBe('job.completed');

  const resume = async (from: string, query: string) =>
    (await (await follow(server, orgId, `${path}${query}`, { 'last-event-id': from })).rest()).map(short);
  expect(await resume(line?.id ?? '', '?include=log')).toEqual(['goes on\nwith: a second line\n\nid: 7', 'job.completed']);
  expect(await resume(line?.id ?? '', '')).toEqual(['job.completed']);
  expect(await resume(early[1]?.id ?? '', '?include=progress')).toEqual(['100 %', 'job.completed']);
});

test('without include a stream has changes of state only, with the ids that it always had', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const all = await follow(server, orgId);
  const millrace = await worker(orgId, async (context) => {
    context.log('info', 'unseen');
    await context.reportProgress(50);
  });
  const jobId = await submit(millrace, orgId);
  const events = await all.take(3);
  expect(events.map(({ event }) => event)).toEqual(['job.scheduled', 'job.running', 'job.completed']);
  const plain = await (await follow(server, orgId, `/jobs/${jobId}/events`)).rest();
  expect(plain).toEqual(events);
  const loud = await (await follow(server, orgId, `/jobs/${jobId}/events?include=progress`)).rest();
  expect(loud.filter(({ event }) => event !== 'job.progress')).toEqual(events);
});

test('the stream of an org has progress and lines of its own jobs as they come, and the last progress before the end', async () => {
  const [orgId, otherId] = [await ledger.newOrg(), await ledger.newOrg()];
  const gate = new Gate();
  // One process for both: what its jobs report reaches the streams of the server, which runs in another engine, by notifications.
  const handler: Work = async (context) => {
    context.log('info', `line of ${context.orgId}`);
    await context.reportProgress(10, context.orgId);
    await gate.pass();
    await context.reportProgress(99, context.orgId);
  };
  const server = await serveEvents(ledger, {}, { isStarted: true });
  const [own, other] = [await worker(orgId, handler), await worker(otherId, handler)];
  const streams = await Promise.all([orgId, otherId].map((id) => follow(server, id, '/events?include=progress&include=log')));
  const filtered = await follow(server, orgId, '/events?include=progress&type=none');
  await Promise.all([submit(own, orgId), submit(other, otherId)]);
  await gate.reached(2);
  for (const [index, stream] of streams.entries()) {
    const id = [orgId, otherId][index];
    const early = await stream.take(4);
    expect(early.map(short).toSorted()).toEqual(['10 %', 'job.running', 'job.scheduled', `line of ${id}`].toSorted());
    for (const { event, data } of early) if (event === 'job.progress') expect(data.message).toBe(id);
  }
  gate.open();
  for (const stream of streams) expect((await stream.take(2)).map(short)).toEqual(['99 %', 'job.completed']);
  filtered.hangUp();
});

test('a stream that gets no hint has the last progress of a job before its end all the same', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger); // Its engine is not started, so it hears no notification.
  const stream = await follow(server, orgId, '/events?include=progress');
  const millrace = await worker(orgId, async (context) => {
    for (let percent = 0; percent <= 100; percent += 10) await context.reportProgress(percent);
  });
  await submit(millrace, orgId);
  expect((await stream.take(4)).map(short)).toEqual(['job.scheduled', 'job.running', '100 %', 'job.completed']);
});

test('a stream of many lines sends all of them, in order, before the end of the job', async () => {
  const orgId = await ledger.newOrg();
  const millrace = await worker(orgId, (context) => {
    for (let n = 1; n <= 1_200; n++) context.log('debug', `${n}`);
  });
  const jobId = await submit(millrace, orgId);
  const server = await serveEvents(ledger);
  const events = await (await follow(server, orgId, `/jobs/${jobId}/events?include=log`)).rest();
  const lines = events.filter(({ event }) => event === 'job.log').map(({ data }) => data.message);
  expect(lines).toEqual([...Array.from({ length: 1_000 }, (_, n) => `${n + 1}`), expect.stringContaining('200 more lines')]);
  expect(events.at(-1)?.event).toBe('job.completed');
});

test('an unknown kind is refused, and so is the stream of a job of another org', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  await expect(follow(server, orgId, '/events?include=__proto__')).rejects.toThrow('400');
  const millrace = await worker(orgId, () => null);
  const jobId = await submit(millrace, orgId);
  await expect(follow(server, await ledger.newOrg(), `/jobs/${jobId}/events?include=log`)).rejects.toThrow('404');
});
