import { requireOrg } from '../../services/access/create-org.ts';
import { findOrgByName } from '../../services/access/list-orgs.ts';
import { changeOrg, deleteOrg, type ListedOrg, requireOrgById } from '../../services/access/manage-orgs.ts';
import { AT_CONSOLE } from '../../services/access/requesters.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { confirmName } from '../confirm.ts';
import { withEngine, withLedger } from '../connection.ts';
import { textFacts } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const EVERY_ORG = { orgId: null };
const REASON = { reason: { type: 'string', value: 'TEXT', help: 'the reason, for the audit trail' } } as const;

const asking = (reason: string | undefined) => ({ ...AT_CONSOLE, reason: reason ?? null });

const factsOf = ({ id, slug, createdAt, requestsPerMinute, maxRunning }: ListedOrg): string[] =>
  textFacts([
    ['org', slug],
    ['id', id],
    ['requests per minute', requestsPerMinute === null ? 'as configured' : String(requestsPerMinute)],
    ['running at most', maxRunning === null ? 'no cap' : String(maxRunning)],
    ['created', createdAt.toISOString()],
  ]);

export const orgsShow = defineCommand({
  name: 'orgs show',
  summary: 'show an org',
  takes: 'NAME|ID',
  minArgs: 1,
  maxArgs: 1,
  examples: ['millrace orgs show acme', 'millrace orgs show acme --json'],
  async run(invocation: Invocation) {
    const org = await withLedger(invocation, async (database) => {
      const { id } = await findOrgByName(database, invocation.args[0] as string);
      return requireOrgById(database, EVERY_ORG, id);
    });
    invocation.out.answer(org, () => factsOf(org));
    return EXIT.ok;
  },
});

export const orgsRename = defineCommand({
  name: 'orgs rename',
  summary: 'give an org another name; its id and its keys stay',
  takes: 'NAME NEW_NAME',
  minArgs: 2,
  maxArgs: 2,
  options: REASON,
  examples: ['millrace orgs rename acme acme-europe'],
  async run(invocation: Invocation<typeof REASON>) {
    const [name, slug] = invocation.args as [string, string];
    const org = await withEngine(invocation, async (engine) => {
      const { id } = await findOrgByName(engine.database, name);
      const before = await requireOrgById(engine.database, EVERY_ORG, id);
      return changeOrg(engine, { org: before, change: { slug }, requester: asking(invocation.values.reason) });
    });
    invocation.out.answer(org, () => factsOf(org));
    return EXIT.ok;
  },
});

const DELETE_OPTIONS = {
  ...REASON,
  confirm: { type: 'string', value: 'NAME', help: 'the name of the org again, instead of typing it in a terminal' },
  yes: { type: 'boolean', help: 'do not ask for confirmation' },
} as const;

export const orgsDelete = defineCommand({
  name: 'orgs delete',
  summary: 'delete an org with all its jobs, keys and other data',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: DELETE_OPTIONS,
  details: [
    'Its keys stop working within 5 seconds. A running server removes the data in bounded steps. The audit trail stays.',
    'The command needs the name typed in a terminal, --confirm NAME or --yes.',
  ].join('\n'),
  examples: ['millrace orgs delete acme', 'millrace orgs delete acme --confirm acme --reason "contract ended"'],
  async run(invocation: Invocation<typeof DELETE_OPTIONS>) {
    const { values, args, out } = invocation;
    const slug = args[0] as string;
    if (values.confirm !== undefined && values.confirm !== slug) {
      throw new UsageError(`--confirm must be "${slug}". Nothing was deleted.`, 'orgs delete');
    }
    const org = await withLedger(invocation, async (database) => {
      const { id } = await requireOrg(database, { slug });
      const found = await requireOrgById(database, EVERY_ORG, id);
      if (values.confirm === undefined && values.yes !== true) {
        await confirmName({ command: 'orgs delete', what: `delete the org ${slug} with all its data`, name: slug }, out);
      }
      await deleteOrg(database, { org: found, confirm: slug, requester: asking(values.reason) });
      return found;
    });
    out.answer({ orgId: org.id, state: 'deleting' }, () => [`Org ${slug} is being deleted. Its keys no longer work.`]);
    return EXIT.ok;
  },
});
