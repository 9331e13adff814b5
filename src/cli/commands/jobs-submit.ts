import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { PRIORITIES } from '../../core/priority.ts';
import { submitJob } from '../../services/jobs/submit-job.ts';
import { waitForJob } from '../../services/jobs/wait-for-job.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { jobLines } from '../job-text.ts';
import { readDuration, readDurationMs, readList, readTags, readWord } from '../option-values.ts';
import { chosenOrg, ONE_ORG_OPTION } from '../org-choice.ts';
import { UsageError } from '../usage-error.ts';

const OPTIONS = {
  ...ONE_ORG_OPTION,
  priority: { type: 'string', value: 'PRIORITY', help: `${PRIORITIES.join(', ')}; default NORMAL` },
  delay: { type: 'string', value: 'DURATION', help: 'the delay before the job runs: 30s, 5m, PT1H' },
  lifetime: { type: 'string', value: 'DURATION', help: 'the time from submission after which the job becomes a dead letter; default 7d' },
  key: {
    type: 'string',
    value: 'KEY',
    help: 'idempotency key: repeats of a submission with the same key create only one job',
  },
  queue: { type: 'string', value: 'QUEUE', help: 'the queue of the job; default q:default' },
  tag: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'a tag of the job; may be given several times' },
  'depends-on': { type: 'string', multiple: true, value: 'ID,ID', help: 'wait until these jobs have completed' },
  wait: { type: 'boolean', help: 'wait until the job has ended, and show it; exit with 1 unless it completed' },
  timeout: { type: 'string', value: 'DURATION', help: 'with --wait: give up waiting after this time; the job continues' },
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
    'millrace jobs submit report.build --org acme --wait --timeout 5m',
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
    lifetime: readDuration(values.lifetime, 'lifetime'),
    idempotencyKey: values.key,
    queue: values.queue,
    tags: readTags(values.tag),
    dependsOn: readList(values['depends-on']),
  };
  const timeoutMs = readDurationMs(values.timeout, 'timeout') ?? null;
  if (timeoutMs !== null && values.wait !== true) throw new UsageError('--timeout needs --wait.', 'jobs submit');
  return withEngine(invocation, async (engine) => {
    const { id: orgId } = await chosenOrg(engine, values);
    const result = await submitJob(engine, { orgId, submission, actor: null });
    const known = result.status === 'DUPLICATE' ? ' It was already submitted with this key.' : '';
    const sentence = `Job ${result.jobId} is ${result.state}.${known}`;
    if (values.wait !== true) {
      out.answer(result, () => [sentence]);
      return EXIT.ok;
    }
    out.note(`${sentence} Waiting until it has ended.`);
    const job = await waitForJob(engine, { orgId, id: result.jobId, timeoutMs });
    out.answer(job, () => jobLines(job));
    return job.state === 'completed' ? EXIT.ok : EXIT.failed;
  });
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
