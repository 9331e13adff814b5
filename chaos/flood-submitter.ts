// The submitter process of chaos/fair-flood.ts: `node chaos/flood-submitter.ts <database> <org> <jobs>`. It says how many it has submitted.
import { Millrace } from '../src/index.ts';

const BATCH = 1_000;

const [database, org, jobs] = process.argv.slice(2);
const millrace = await Millrace.open({ database, org });
for (let left = Number(jobs); left > 0; left -= BATCH) {
  const count = Math.min(left, BATCH);
  await millrace.submitMany(Array.from({ length: count }, () => ({ type: 'flood', payload: {} })));
  process.stdout.write(`${Number(jobs) - left + count}\n`);
}
await millrace.close({ grace: 0 });
