import { showDuration } from '../../config/values.ts';
import { DatabaseWatch } from '../../platform/database-watch.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { dataFolder, maskPassword, settingsOf } from '../connection.ts';
import { readDurationMs, readInteger, readList } from '../option-values.ts';
import type { Output } from '../output.ts';
import { openBuiltIns, openModules } from '../shift.ts';
import { listenForStop } from '../stop-signals.ts';

const OPTIONS = {
  concurrency: { type: 'string', value: 'N', help: 'how many jobs this process runs at the same time; default 1' },
  queues: { type: 'string', multiple: true, value: 'A,B', help: 'the queues to take jobs from; default: all queues' },
  name: { type: 'string', value: 'NAME', help: 'the name of this worker in histories; default: host and process id' },
  grace: { type: 'string', value: 'DURATION', help: 'how long running jobs may continue after a stop; default 30s' },
} as const;

export const work = defineCommand({
  name: 'work',
  summary: 'run the handlers of your modules, or the built-in job types',
  takes: '[MODULE...]',
  maxArgs: 1_000,
  options: OPTIONS,
  details: [
    'A module is a JavaScript or TypeScript file, named by its path. It exports a function "register(millrace)", or "handlers":',
    'a list of registrations { type, handler, ... }, or an object of them by type. Without a module the process runs the built-in',
    'types (jobs of /v1 and jobs of the type simulate) and sends webhooks.',
    'After SIGTERM or SIGINT the process starts no more jobs. Running jobs may finish within the grace period; the others return to',
    'the queue without using up an attempt. A second signal ends the process immediately.',
  ].join('\n'),
  examples: [
    'millrace work --concurrency 10',
    'millrace work ./handlers.ts',
    'millrace work ./mail.ts ./reports.ts --concurrency 50 --queues q:mail,q:reports --grace 2m',
  ],
  isLongRunning: true,
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const { config } = settingsOf(values);
  const graceMs = readDurationMs(values.grace, 'grace') ?? config.workers.drainGraceMs;
  const concurrency = readInteger(values.concurrency, 'concurrency') ?? config.workers.concurrency ?? 1;
  const queues = readList(values.queues) ?? [...config.workers.queues];
  const { name } = values;
  const stop = listenForStop(() =>
    out.event({ event: 'forced' }, 'Stopped immediately. Other workers take over the jobs of this process in a few seconds.'),
  );
  const options = { concurrency, queues, name };
  const shift = await (args.length === 0 ? openBuiltIns(invocation, options) : openModules(invocation, args, options));
  const watch = new DatabaseWatch(shift, out);
  try {
    await shift.start();
    const database = maskPassword(shift.databaseUrl);
    announce(out, { types: [...shift.types], queues, concurrency, database, home: dataFolder(values) });
    const signal = await stop.asked;
    const grace = showDuration(graceMs);
    out.event({ event: 'draining', signal, grace }, `${signal}: draining; running jobs have ${grace} to finish.`);
    await shift.drain(graceMs);
  } finally {
    watch.stop();
    await shift.close();
    stop.release();
  }
  out.event({ event: 'stopped' }, 'Stopped.');
  return EXIT.ok;
}

type Served = { types: string[]; queues: string[]; concurrency: number; database: string; home: string | null };

function announce(out: Output, served: Served): void {
  const { types, queues, concurrency, database, home } = served;
  const where = queues.includes('*') ? 'all queues' : `queue ${queues.join(', ')}`;
  const lines = [
    `Serving ${types.join(', ') || 'no job types: no handler is registered'}`,
    `  from ${where}, ${concurrency} at the same time`,
    `  database ${database}${home === null ? '' : ` (data in ${home})`}`,
    'Stop with Ctrl-C or SIGTERM: running jobs may finish first. A second signal stops immediately.',
  ];
  out.event({ event: 'serving', ...served, pid: process.pid }, lines);
}
