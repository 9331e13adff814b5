import { listOrgs } from '../../services/access/list-orgs.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withLedger } from '../connection.ts';
import { textTable } from '../text-table.ts';

export const orgsList = defineCommand({
  name: 'orgs list',
  summary: 'show the orgs',
  examples: ['millrace orgs list', 'millrace orgs list --json'],
  async run(invocation: Invocation) {
    const orgs = await withLedger(invocation, (database) => listOrgs(database));
    const rows = orgs.map(({ slug, id, requestsPerMinute, maxRunning, createdAt }) => [
      slug,
      id,
      requestsPerMinute === null ? 'as configured' : String(requestsPerMinute),
      maxRunning === null ? 'no cap' : String(maxRunning),
      createdAt.toISOString(),
    ]);
    invocation.out.answer({ orgs }, () => textTable(['org', 'id', 'requests per minute', 'running at most', 'created'], rows));
    return EXIT.ok;
  },
});
