import { requireOrg } from '../../services/access/create-org.ts';
import { listKeys } from '../../services/access/list-keys.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';
import { withLedger } from '../with-ledger.ts';

const OPTIONS = {
  org: { type: 'string', value: 'SLUG', help: 'the org whose keys to show' },
} as const;

export const keysList = defineCommand({
  name: 'keys list',
  summary: 'show the API keys of an org, without their secrets',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: OPTIONS,
  examples: ['millrace keys list --org default', 'millrace keys list --org acme --json'],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { org: slug } = invocation.values;
  if (slug === undefined) throw new UsageError('"millrace keys list" needs --org SLUG.', 'keys list');
  const keys = await withLedger(invocation, async (database) =>
    listKeys(database, { orgId: (await requireOrg(database, { slug })).id }),
  );
  const rows = keys.map((key) => [
    ...[key.id, key.name, key.status, key.expiresAt.toISOString()],
    ...[key.lastUsedAt?.toISOString() ?? 'never', key.scopes.join(',')],
  ]);
  invocation.out.answer({ keys }, () =>
    rows.length === 0
      ? [`Org ${slug} has no keys.`]
      : textTable(['id', 'name', 'status', 'expires', 'last used', 'scopes'], rows),
  );
  return EXIT.ok;
}
