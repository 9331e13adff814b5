import { createProducer, listProducers, removeProducer } from '../../services/access/producers.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withLedger } from '../connection.ts';
import { textFacts, textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const CREATE_OPTIONS = { org: { type: 'string', value: 'SLUG', help: 'the org that the producer publishes for' } } as const;

export const producersCreate = defineCommand({
  name: 'producers create',
  summary: 'create a database role that may publish downloads, and show its password once',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: CREATE_OPTIONS,
  details: 'The role may insert rows into millrace.task_intake and nothing else. The database user of this command needs CREATEROLE.',
  examples: ['millrace producers create crawler --org default', 'millrace producers create crawler --org acme --json'],
  async run(invocation: Invocation<typeof CREATE_OPTIONS>) {
    const { values, args, out } = invocation;
    const { org } = values;
    if (org === undefined) throw new UsageError('"millrace producers create" needs --org SLUG.', 'producers create');
    const made = await withLedger(invocation, (database) => createProducer(database, { role: args[0] as string, org }));
    out.note('Keep this password: it is shown only once.');
    out.answer(made, () => [
      made.password,
      ...textFacts([
        ['role', made.role],
        ['org', made.org],
        ['url', made.url],
      ]),
    ]);
    return EXIT.ok;
  },
});

export const producersList = defineCommand({
  name: 'producers list',
  summary: 'show the roles that may publish downloads',
  examples: ['millrace producers list', 'millrace producers list --json'],
  async run(invocation: Invocation) {
    const producers = await withLedger(invocation, (database) => listProducers(database));
    const rows = producers.map(({ role, org, createdAt }) => [role, org, createdAt.toISOString()]);
    invocation.out.answer({ producers }, () =>
      rows.length === 0 ? ['There are no producers.'] : textTable(['role', 'org', 'created'], rows),
    );
    return EXIT.ok;
  },
});

export const producersDelete = defineCommand({
  name: 'producers delete',
  summary: 'remove a role that may publish downloads',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  details: 'What it has published is downloaded. Only roles that "millrace producers create" made are removed.',
  examples: ['millrace producers delete crawler'],
  async run(invocation: Invocation) {
    const role = invocation.args[0] as string;
    await withLedger(invocation, (database) => removeProducer(database, { role }));
    invocation.out.answer({ role }, () => [`The producer ${role} is removed.`]);
    return EXIT.ok;
  },
});
