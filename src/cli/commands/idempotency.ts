import { wholeOrg } from '../../core/owner.ts';
import { readKeyRecord } from '../../services/jobs/read-key-record.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { chosenOrg, ONE_ORG_OPTION } from '../org-choice.ts';
import { textFacts } from '../text-table.ts';

const OPTIONS = {
  ...ONE_ORG_OPTION,
  type: { type: 'string', value: 'NAME', help: 'the job type; needed if jobs of several types have the key' },
  project: { type: 'string', value: 'ID', help: 'the project; needed if jobs of several projects have the key' },
} as const;

export const idempotencyShow = defineCommand({
  name: 'idempotency show',
  summary: 'show the job that an idempotency key stands for',
  takes: 'KEY',
  minArgs: 1,
  maxArgs: 1,
  options: OPTIONS,
  examples: ['millrace idempotency show order-17', 'millrace idempotency show order-17 --type invoice --org acme --json'],
  async run(invocation: Invocation<typeof OPTIONS>) {
    const { values, args, out } = invocation;
    const record = await withEngine(invocation, async (engine) => {
      const org = await chosenOrg(engine, values);
      return readKeyRecord(engine, { ...wholeOrg(org.id), key: args[0] as string, type: values.type, keyProjectId: values.project });
    });
    out.answer({ record }, () =>
      textFacts([
        ['key', record.key],
        ['type', record.type],
        ['project', record.projectId],
        ['job', record.jobId],
        ['status', record.status],
        ['first seen', record.firstSeenAt.toISOString()],
        ['last seen', record.lastSeenAt.toISOString()],
        ['expires', record.expiresAt.toISOString()],
      ]),
    );
    return EXIT.ok;
  },
});
