/** A process of its own that uses the server of a home: prints the address, closes when told so on stdin. */
import { openPostgres } from '../../src/postgres/open.ts';

const [home, roundsText = '1'] = process.argv.slice(2);
for (let round = 1; round < Number(roundsText); round += 1) {
  const passing = await openPostgres({ databaseUrl: '', home });
  await passing.close();
}
const postgres = await openPostgres({ databaseUrl: '', home });
process.stdin.once('data', async () => {
  await postgres.close();
  process.exit(0);
});
process.stdout.write(`${postgres.url}\n`);
