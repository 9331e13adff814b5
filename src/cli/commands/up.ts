import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { dataFolder, maskPassword, openMillrace } from '../connection.ts';
import { DatabaseWatch } from '../database-watch.ts';
import { listenForStop } from '../stop-signals.ts';

export const up = defineCommand({
  name: 'up',
  summary: 'start Millrace here, with a database of its own unless you name one',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: {},
  details:
    'Brings the schema up to date and keeps what waits moving: delays, retries, schedules, recovery, retention. Runs until stopped.',
  examples: ['millrace up', 'millrace up --home /var/lib/millrace', 'DATABASE_URL=postgres://user@host/db millrace up'],
  isLongRunning: true,
  run,
});

async function run(invocation: Invocation): Promise<number> {
  const { values, out } = invocation;
  const stop = listenForStop(() => {});
  const millrace = await openMillrace(invocation);
  const watch = new DatabaseWatch(millrace, out);
  try {
    await millrace.start();
    const home = dataFolder(values);
    const database = maskPassword(millrace.databaseUrl);
    out.event(
      { event: 'up', database, home, pid: process.pid },
      [out.paint('green', 'Millrace is up.'), ...welcome(database, home, addressWords(values))].join('\n'),
    );
    await stop.asked;
    out.event({ event: 'stopping' }, 'Stopping.');
  } finally {
    watch.stop();
    await millrace.close({ grace: 0 });
    stop.release();
  }
  out.event({ event: 'stopped' }, 'Stopped.');
  return EXIT.ok;
}

function welcome(database: string, home: string | null, address: string): string[] {
  return [
    ...(home === null ? [] : [`  data      ${home}`]),
    `  database  ${database}`,
    '',
    'In another terminal, submit a job, write a handler for it, and start a worker that runs it:',
    `  npx millrace jobs submit greet '{"name":"Ada"}'${address}`,
    `  echo "export const handlers = { greet: (context, { name }) => 'Hello, ' + name };" > greet.mjs`,
    `  npx millrace work greet.mjs --verbose${address}`,
    '',
    'Stop with Ctrl-C. The data stays.',
  ];
}

/** What another terminal must be told to find the same database. */
function addressWords({ database, home }: Invocation['values']): string {
  if (database !== undefined) return ' --database URL';
  return home === undefined ? '' : ` --home ${/^[\w./-]+$/.test(home) ? home : `'${home.replaceAll("'", `'\\''`)}'`}`;
}
