/**
 * A worker at default settings, for `worker-kill.ts` to kill. It says `ready`, and `start <jobId> <attempt>` for each attempt. The
 * first attempt of a job `held` waits until a line comes on stdin; a job `brief` takes a few milliseconds.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Millrace } from '../src/index.ts';

const [database = ''] = process.argv.slice(2);
const say = (...words: (string | number)[]) => void process.stdout.write(`${words.join(' ')}\n`);

/** Ends the attempts that wait now. */
let release = Promise.withResolvers<void>();
process.stdin.on('data', () => {
  release.resolve();
  release = Promise.withResolvers<void>();
});

const millrace = await Millrace.open({ database });
millrace.register({
  type: 'held',
  handler: async ({ jobId, attempt }) => {
    say('start', jobId, attempt);
    if (attempt === 1) await release.promise;
  },
});
millrace.register({ type: 'brief', handler: () => delay(Math.random() * 20) });
await millrace.start();
say('ready');
