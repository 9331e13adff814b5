import { API_KEY_SCOPES, DEFAULT_SCOPES } from '../../core/api-key.ts';

import { createKey } from '../../services/access/create-key.ts';
import { requireOrg } from '../../services/access/create-org.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { settingsOf } from '../connection.ts';
import { readDurationMs, readWords } from '../option-values.ts';
import { textFacts } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';
import { withLedger } from '../with-ledger.ts';

const OPTIONS = {
  org: { type: 'string', value: 'SLUG', help: 'the org that the key acts for' },
  name: { type: 'string', value: 'NAME', help: 'what the key is for; default "api key"' },
  scopes: {
    type: 'string',
    value: 'A,B',
    multiple: true,
    help: `what it may do, or "all": ${API_KEY_SCOPES.join(', ')}; default ${DEFAULT_SCOPES.join(', ')}`,
  },
  project: { type: 'string', value: 'ID', help: 'the project of the org that the key is bound to; default: none' },
  expires: { type: 'string', value: 'DURATION', help: 'how long it works; default: auth.key_lifetime, 90d' },
} as const;

export const keysCreate = defineCommand({
  name: 'keys create',
  summary: 'make an API key and show it, once',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: OPTIONS,
  details: 'Only a hash of the key is kept: it cannot be shown again. Send it as "Authorization: Bearer KEY".',
  examples: [
    'millrace keys create --org default',
    'millrace keys create --org acme --name billing --scopes jobs:write,jobs:read --expires 30d',
  ],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  const { org: slug } = values;
  if (slug === undefined) throw new UsageError('"millrace keys create" needs --org SLUG.', 'keys create');
  const wanted = {
    ...{ name: values.name, projectId: values.project },
    scopes: values.scopes?.join() === 'all' ? API_KEY_SCOPES : readWords(values.scopes, 'scopes', API_KEY_SCOPES),
    lifetimeMs: readDurationMs(values.expires, 'expires') ?? settingsOf(values).config.auth.keyLifetimeMs,
  };
  const key = await withLedger(invocation, async (database) => {
    const org = await requireOrg(database, { slug });
    return createKey(database, { ...wanted, orgId: org.id });
  });
  out.note('Keep this key: it is shown this once.');
  out.answer(key, () => [
    key.key,
    ...textFacts([
      ['id', key.id],
      ['org', slug],
      ['project', key.projectId],
      ['name', key.name],
      ['scopes', key.scopes.join(', ')],
      ['expires', key.expiresAt.toISOString()],
    ]),
  ]);
  return EXIT.ok;
}
