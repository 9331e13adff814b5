import { revokeKey } from '../../services/access/revoke-key.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withLedger } from '../with-ledger.ts';

export const keysRevoke = defineCommand({
  name: 'keys revoke',
  summary: 'end an API key for good',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: {},
  details:
    'The id is the part between the underscores, and what "millrace keys list" shows. Every process refuses the key within 5 seconds; jobs that it submitted go on.',
  examples: ['millrace keys revoke 0Fv3qLxk9TzPa'],
  run,
});

async function run(invocation: Invocation): Promise<number> {
  const keyId = invocation.args[0] as string;
  const revoked = await withLedger(invocation, (database) => revokeKey(database, { keyId }));
  invocation.out.answer(revoked, () => [`Key ${keyId} is revoked since ${revoked.revokedAt.toISOString()}.`]);
  return EXIT.ok;
}
