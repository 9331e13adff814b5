import { API_KEY_SCOPES, DEFAULT_SCOPES } from '../../core/api-key.ts';
import { wholeOrg } from '../../core/owner.ts';
import { createKey } from '../../services/access/create-key.ts';
import { createOrg, requireOrg } from '../../services/access/create-org.ts';
import { listKeys } from '../../services/access/list-keys.ts';
import { revokeKey } from '../../services/access/revoke-key.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { settingsOf, withLedger } from '../connection.ts';
import { OPERATOR_HERE } from '../operator-here.ts';
import { readDurationMs, readInteger, readWords } from '../option-values.ts';
import { textFacts, textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const ORG_OPTIONS = {
  'requests-per-minute': { type: 'string', value: 'N', help: 'rate limit of the org; default: as configured' },
} as const;

export const orgsCreate = defineCommand({
  name: 'orgs create',
  summary: 'create an org, which owns jobs and keys that other orgs cannot see',
  takes: 'SLUG',
  minArgs: 1,
  maxArgs: 1,
  options: ORG_OPTIONS,
  examples: ['millrace orgs create acme', 'millrace orgs create acme --requests-per-minute 6000 --json'],
  async run(invocation: Invocation<typeof ORG_OPTIONS>) {
    const { values, args, out } = invocation;
    const requestsPerMinute = readInteger(values['requests-per-minute'], 'requests-per-minute') ?? null;
    const slug = args[0] as string;
    const org = await withLedger(invocation, (database) => createOrg(database, { slug, requestsPerMinute, requester: OPERATOR_HERE }));
    out.answer(org, () => [`Org ${org.slug} has the id ${org.id}.`, `Next: millrace keys create --org ${org.slug}`]);
    return EXIT.ok;
  },
});

const CREATE_OPTIONS = {
  org: { type: 'string', value: 'SLUG', help: 'the org that the key acts for' },
  name: { type: 'string', value: 'NAME', help: 'the purpose of the key; default "api key"' },
  scopes: {
    type: 'string',
    value: 'A,B',
    multiple: true,
    help: `the permissions of the key, or "all": ${API_KEY_SCOPES.join(', ')}; default ${DEFAULT_SCOPES.join(', ')}`,
  },
  project: { type: 'string', value: 'ID', help: 'restrict the key to this project of the org; default: no restriction' },
  expires: { type: 'string', value: 'DURATION', help: 'how long the key is valid; default: auth.key_lifetime, 90d' },
} as const;

export const keysCreate = defineCommand({
  name: 'keys create',
  summary: 'create an API key and show it once',
  options: CREATE_OPTIONS,
  details: 'Only a hash of the key is stored, so it cannot be shown again. Send it as "Authorization: Bearer KEY".',
  examples: [
    'millrace keys create --org default',
    'millrace keys create --org acme --name billing --scopes jobs:write,jobs:read --expires 30d',
  ],
  run: create,
});

async function create(invocation: Invocation<typeof CREATE_OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  const slug = orgOf(values, 'keys create');
  const request = {
    name: values.name,
    projectId: values.project,
    scopes: values.scopes?.join() === 'all' ? API_KEY_SCOPES : readWords(values.scopes, 'scopes', API_KEY_SCOPES),
    lifetimeMs: readDurationMs(values.expires, 'expires') ?? settingsOf(values).config.auth.keyLifetimeMs,
  };
  const key = await withLedger(invocation, async (database) => {
    const org = await requireOrg(database, { slug });
    return createKey(database, { ...request, orgId: org.id, requester: OPERATOR_HERE });
  });
  out.note('Keep this key: it is shown only once.');
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

const LIST_OPTIONS = { org: { type: 'string', value: 'SLUG', help: 'the org whose keys to show' } } as const;

export const keysList = defineCommand({
  name: 'keys list',
  summary: 'show the API keys of an org without their secrets',
  options: LIST_OPTIONS,
  examples: ['millrace keys list --org default', 'millrace keys list --org acme --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const slug = orgOf(invocation.values, 'keys list');
    const keys = await withLedger(invocation, async (database) => {
      const org = await requireOrg(database, { slug });
      return listKeys(database, wholeOrg(org.id));
    });
    const rows = keys.map((key) => [
      key.id,
      key.name,
      key.status,
      key.expiresAt.toISOString(),
      key.lastUsedAt?.toISOString() ?? 'never',
      key.scopes.join(','),
    ]);
    invocation.out.answer({ keys }, () =>
      rows.length === 0 ? [`Org ${slug} has no keys.`] : textTable(['id', 'name', 'status', 'expires', 'last used', 'scopes'], rows),
    );
    return EXIT.ok;
  },
});

export const keysRevoke = defineCommand({
  name: 'keys revoke',
  summary: 'revoke an API key for good',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  details:
    'The id is the part between the underscores of a key; "millrace keys list" shows it. Every process refuses the key within 5 seconds. Its jobs keep running.',
  examples: ['millrace keys revoke 0Fv3qLxk9TzPa'],
  async run(invocation: Invocation) {
    const keyId = invocation.args[0] as string;
    const revoked = await withLedger(invocation, (database) => revokeKey(database, { keyId, requester: OPERATOR_HERE }));
    invocation.out.answer(revoked, () => [`Key ${keyId} is revoked since ${revoked.revokedAt.toISOString()}.`]);
    return EXIT.ok;
  },
});

function orgOf({ org }: { readonly org?: string }, command: string): string {
  if (org === undefined) throw new UsageError(`"millrace ${command}" needs --org SLUG.`, command);
  return org;
}
