import type { Config } from '../../config/load-config.ts';
import { showDuration } from '../../config/values.ts';
import type { Millrace } from '../../library/millrace.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { dataFolder, maskPassword, openMillrace, settingsOf } from '../connection.ts';
import { DatabaseWatch } from '../database-watch.ts';
import { registerModules } from '../handler-modules.ts';
import { reportJobs } from '../job-reports.ts';
import { readDuration, readInteger, readList } from '../option-values.ts';
import type { Output } from '../output.ts';
import { listenForStop } from '../stop-signals.ts';

const OPTIONS = {
  concurrency: { type: 'string', value: 'N', help: 'jobs run at once in this process; default 1' },
  queues: { type: 'string', multiple: true, value: 'A,B', help: 'the queues to work on; default: all of them' },
  name: { type: 'string', value: 'NAME', help: 'how this worker is called in histories; default: host and process id' },
  grace: { type: 'string', value: 'DURATION', help: 'how long running jobs may go on after a stop; default 30s' },
  lookahead: {
    type: 'boolean',
    negative: true,
    help: 'start jobs a moment before a slot is free; on where there is more than one slot',
  },
} as const;

export const work = defineCommand({
  name: 'work',
  summary: 'run the handlers of your modules',
  takes: 'MODULE...',
  minArgs: 1,
  maxArgs: 1_000,
  options: OPTIONS,
  details: [
    'A module is a JavaScript or TypeScript file, named by its path. It exports a function "register(millrace)", or "handlers":',
    'a list of registrations { type, handler, ... }, or an object of them by type.',
    'SIGTERM or SIGINT drains: nothing new is started, running jobs may finish within the grace, the rest is given back to other',
    'workers without costing an attempt. A second signal ends the process at once.',
  ].join('\n'),
  examples: [
    'millrace work ./handlers.ts',
    'millrace work ./mail.ts ./reports.ts --concurrency 50 --queues mail,reports --grace 2m',
  ],
  isLongRunning: true,
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const { config } = settingsOf(values);
  const grace = readDuration(values.grace, 'grace') ?? showDuration(config.workers.drainGraceMs);
  const concurrency = readInteger(values.concurrency, 'concurrency') ?? config.workers.concurrency ?? 1;
  const queues = readList(values.queues) ?? [...config.workers.queues];
  const stop = listenForStop(() =>
    out.event({ event: 'forced' }, 'Stopped at once; other workers take over when the leases end.'),
  );
  const millrace = await openMillrace(invocation, {
    concurrency,
    queues,
    name: values.name,
    lookahead: values.lookahead,
  });
  const watch = new DatabaseWatch(
    { on: (event, listener) => millrace.on(event, listener), probe: () => millrace.queues.list() },
    out,
  );
  reportJobs(millrace, out);
  try {
    const types = await registerModules(millrace, args);
    await configureQueues(millrace, config);
    await millrace.start();
    announce(out, {
      types,
      queues,
      concurrency,
      database: maskPassword(millrace.databaseUrl),
      home: dataFolder(values),
    });
    await drainOnStop(millrace, { stop, grace, out });
  } finally {
    watch.stop();
    await millrace.close({ grace: 0 });
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
    `Serving ${types.join(', ') || 'nothing: no handler was registered'}`,
    `  from ${where}, ${concurrency} at once`,
    `  database ${database}${home === null ? '' : ` (data in ${home})`}`,
    'Stop with Ctrl-C or SIGTERM: running jobs may finish first. Twice stops at once.',
  ];
  out.event({ event: 'serving', ...served, pid: process.pid }, lines.join('\n'));
}

type Drain = { stop: ReturnType<typeof listenForStop>; grace: string | number; out: Output };

async function drainOnStop(millrace: Millrace, { stop, grace, out }: Drain): Promise<void> {
  const signal = await stop.asked;
  const shown = typeof grace === 'number' ? `${grace}s` : grace;
  out.event({ event: 'draining', signal, grace: shown }, `${signal}: draining; running jobs have ${shown} to finish.`);
  await millrace.drain({ grace });
}

async function configureQueues({ queues }: Millrace, config: Config): Promise<void> {
  for (const { name, order, paused } of config.queues) {
    if (order !== undefined) await queues.configure(name, { order });
    if (paused !== undefined) await (paused ? queues.pause(name) : queues.resume(name));
  }
}
