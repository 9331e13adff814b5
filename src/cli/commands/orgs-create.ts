import { createOrg } from '../../services/access/create-org.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { readInteger } from '../option-values.ts';
import { withLedger } from '../with-ledger.ts';

const OPTIONS = {
  'requests-per-minute': { type: 'string', value: 'N', help: 'rate limit of the org; default: as configured' },
} as const;

export const orgsCreate = defineCommand({
  name: 'orgs create',
  summary: 'make an org: jobs and keys belong to one, and none sees those of another',
  takes: 'SLUG',
  minArgs: 1,
  maxArgs: 1,
  options: OPTIONS,
  examples: ['millrace orgs create acme', 'millrace orgs create acme --requests-per-minute 6000 --json'],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const requestsPerMinute = readInteger(values['requests-per-minute'], 'requests-per-minute') ?? null;
  const slug = args[0] as string;
  const org = await withLedger(invocation, (database) => createOrg(database, { slug, requestsPerMinute }));
  out.answer(org, () => [`Org ${org.slug} has the id ${org.id}.`, `Next: millrace keys create --org ${org.slug}`]);
  return EXIT.ok;
}
