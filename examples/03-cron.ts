/**
 * A job that a cron expression repeats. The schedule is stored in the database. Any number of processes may set it, and
 * each time submits one job. An expression with six fields begins with seconds; five fields are ordinary cron.
 */
import { randomUUID } from 'node:crypto';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { report: { payload: { region: string } } };

// A separate queue and key, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

const fired: string[] = [];
const twice = new Promise<void>((resolve) => {
  millrace.register({
    type: 'report',
    handler: (context, { region }) => {
      if (fired.length === 2) return;
      fired.push(context.idempotencyKey);
      console.log(`report ${fired.length} for ${region}`);
      if (fired.length === 2) resolve();
    },
  });
});

const schedule = await millrace.schedule(queue, {
  cron: '* * * * * *',
  timeZone: 'Europe/Berlin',
  submission: { type: 'report', payload: { region: 'north' }, queue },
});
console.log(`first run is at a full second: ${schedule.nextAt.getMilliseconds() === 0}`);
await millrace.start();
await twice;
console.log(`every time has its own key: ${new Set(fired).size === fired.length}`);
console.log(`unscheduled: ${await millrace.unschedule(queue)}`);
await millrace.close();
