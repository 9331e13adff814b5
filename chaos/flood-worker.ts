// The worker process of chaos/fair-flood.ts: `node chaos/flood-worker.ts <database> <milliseconds of a job>`.
import { setTimeout as delay } from 'node:timers/promises';
import { Millrace } from '../src/index.ts';

const [database, jobMs] = process.argv.slice(2);
const millrace = await Millrace.open({ database, concurrency: 10, reserve: 10 });
millrace.register({ type: 'flood', handler: () => delay(Number(jobMs)) });
await millrace.start();
process.stdout.write('ready\n');
process.stdin.once('end', () => void millrace.close({ grace: 0 })).resume();
