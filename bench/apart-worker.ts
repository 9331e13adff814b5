// A worker process of bench/apart.ts: runs jobs of the given system and reports when each of them started.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApartPayload, ApartReport, QueueSystem, Started } from './apart.ts';

const REPORT_EVERY_MS = 50;

const [driver, settings] = process.argv.slice(2) as [string, string];
const { slots, ...connection } = JSON.parse(settings);
const { open } = await import(driver);
const system: QueueSystem = await open(connection);
const report = (message: ApartReport): void => void process.send?.(message);

let started: Started[] = [];

// Sends batches, because a message for each job would cost more than the job.
function sendStarted(): void {
  if (started.length === 0) return;
  report({ kind: 'started', jobs: started });
  started = [];
}

async function onJob({ atMs, waitMs }: ApartPayload): Promise<void> {
  started.push([atMs, performance.timeOrigin + performance.now()]);
  if (waitMs > 0) await sleep(waitMs);
}

setInterval(sendStarted, REPORT_EVERY_MS);
process.on('disconnect', () => process.exit(0));
await system.work(onJob, { concurrency: slots });
report({ kind: 'ready' });
