import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { PRIORITIES } from '../../core/priority.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { readDuration, readList, readTags, readWord } from '../option-values.ts';
import { UsageError } from '../usage-error.ts';

const OPTIONS = {
  priority: { type: 'string', value: 'PRIORITY', help: `${PRIORITIES.join(', ')}; default NORMAL` },
  delay: { type: 'string', value: 'DURATION', help: 'the delay before the job runs: 30s, 5m, PT1H' },
  key: {
    type: 'string',
    value: 'KEY',
    help: 'idempotency key: repeats of a submission with the same key create only one job',
  },
  queue: { type: 'string', value: 'QUEUE', help: 'the queue of the job; default q:default' },
  tag: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'a tag of the job; may be given several times' },
  'depends-on': { type: 'string', multiple: true, value: 'ID,ID', help: 'wait until these jobs have completed' },
} as const;

export const jobsSubmit = defineCommand({
  name: 'jobs submit',
  summary: 'submit a job',
  takes: 'TYPE [JSON | @FILE | -]',
  minArgs: 1,
  maxArgs: 2,
  options: OPTIONS,
  details: 'The payload is JSON: an argument, a file with @FILE, or standard input with -. The default is {}.',
  examples: [
    `millrace jobs submit email.send '{"to":"ada@example.org"}' --priority HIGH --key welcome-42`,
    'millrace jobs submit report.build @report.json --delay 1h --tag customer=42',
    'cat order.json | millrace jobs submit order.import - --depends-on ID',
  ],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const submission = {
    type: args[0] as string,
    payload: await readPayload(args[1]),
    priority: readWord(values.priority, 'priority', PRIORITIES),
    delay: readDuration(values.delay, 'delay'),
    idempotencyKey: values.key,
    queue: values.queue,
    tags: readTags(values.tag),
    dependsOn: readList(values['depends-on']),
  };
  const result = await withMillrace(invocation, (millrace) => millrace.submit(submission));
  const known = result.status === 'DUPLICATE' ? ' It was already submitted with this key.' : '';
  out.answer(result, () => [`Job ${result.jobId} is ${result.state}.${known}`]);
  return EXIT.ok;
}

async function readPayload(source: string | undefined): Promise<unknown> {
  if (source === undefined) return {};
  if (source === '-') return parseJson(await text(process.stdin), 'Standard input');
  if (!source.startsWith('@')) return parseJson(source, 'The payload');
  const path = source.slice(1);
  try {
    return parseJson(readFileSync(path, 'utf8'), path);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${path} cannot be read: ${error instanceof Error ? error.message : error}.`, 'jobs submit');
  }
}

function parseJson(json: string, source: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${source} is not JSON: ${reason}. A payload looks like '{"name":"Ada"}'.`, 'jobs submit');
  }
}
