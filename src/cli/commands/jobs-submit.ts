import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { CATEGORY_NAMES } from '../../core/governance/categories.ts';
import { PRIORITIES } from '../../core/priority.ts';
import type { Submission } from '../../core/submission.ts';
import { ON_CONFLICT, UNIQUE_UNTIL } from '../../core/unique.ts';
import type { SubmissionResult } from '../../services/jobs/submission-result.ts';
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
  unique: { type: 'string', value: 'KEY', help: 'unique key: one job of the type with this key at a time' },
  until: { type: 'string', value: 'WORD', help: `with --unique: ${UNIQUE_UNTIL.join(' or ')}; default finished` },
  'on-conflict': { type: 'string', value: 'WORD', help: `with --unique: ${ON_CONFLICT.join(', ')}; default skip` },
  debounce: { type: 'string', value: 'KEY', help: 'with --delay: each submission with this key moves the start of the same job' },
  category: { type: 'string', value: 'NAME', help: `makes it a governed job: ${CATEGORY_NAMES.join(', ')}` },
  queue: { type: 'string', value: 'QUEUE', help: 'the queue of the job; default that of its category, else q:default' },
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
    'millrace jobs submit index @document.json --unique document-42 --until started --on-conflict replace',
  ],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const submission = {
    type: args[0] as string,
    payload: await readPayload(args[1]),
    priority: readWord(values.priority, 'priority', PRIORITIES),
    ...readStart(values),
    lifetime: readDuration(values.lifetime, 'lifetime'),
    idempotencyKey: values.key,
    category: readWord(values.category, 'category', CATEGORY_NAMES),
    queue: values.queue,
    tags: readTags(values.tag),
    dependsOn: readList(values['depends-on']),
  };
  const timeoutMs = readDurationMs(values.timeout, 'timeout') ?? null;
  if (timeoutMs !== null && values.wait !== true) throw new UsageError('--timeout needs --wait.', 'jobs submit');
  return withEngine(invocation, async (engine) => {
    const { id: orgId } = await chosenOrg(engine, values);
    const result = await submitJob(engine, { orgId, submission, actor: null });
    const sentence = `Job ${result.jobId} is ${result.state}.${remarkOn(result)}`;
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

/** When the job starts, and what becomes of other jobs with its key. */
function readStart(values: Invocation<typeof OPTIONS>['values']): Pick<Submission, 'delay' | 'unique' | 'debounce'> {
  const delay = readDuration(values.delay, 'delay');
  const until = readWord(values.until, 'until', UNIQUE_UNTIL);
  const onConflict = readWord(values['on-conflict'], 'on-conflict', ON_CONFLICT);
  if (values.unique === undefined && (until ?? onConflict) !== undefined) {
    throw new UsageError('--until and --on-conflict need --unique.', 'jobs submit');
  }
  if (values.debounce !== undefined && delay === undefined) throw new UsageError('--debounce needs --delay.', 'jobs submit');
  const unique = values.unique === undefined ? undefined : { key: values.unique, until, onConflict };
  if (values.debounce === undefined || delay === undefined) return { delay, unique };
  return { unique, debounce: { key: values.debounce, delay } };
}

function remarkOn(result: SubmissionResult): string {
  if (result.status === 'ACCEPTED') return result.replacedJobId === undefined ? '' : ` It replaces job ${result.replacedJobId}.`;
  return REMARKS[result.status];
}

const REMARKS = {
  DUPLICATE: ' It was already submitted with this key.',
  SKIPPED: ' It has this unique key already, so no job was created.',
  UPDATED: ' It has this key already, and has the new payload now.',
} as const;

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
