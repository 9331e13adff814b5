// node bench/peers/http.mjs [--quick]: single jobs over HTTP, compared with a Fastify server that adds them to BullMQ on Redis with fsync always. Both
// acknowledge a job when it is on disk. Fails if Millrace misses its threshold.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { httpShares } from '../http.ts';
import { chooseSystems, withServers } from './stand.mjs';

const THRESHOLD = 1.5;

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const [bullmq] = chooseSystems(['bullmq on Redis, fsync always']);
if (bullmq === undefined) throw new Error('This comparison needs redis-server.');
await withServers([bullmq], async (scratch) => {
  const script = fileURLToPath(new URL('http-bullmq.mjs', import.meta.url));
  const other = { script, args: [String(bullmq.redisPort)] };
  const measured = await httpShares((name) => scratch.fresh(name), { quick: values.quick, other });
  console.table(
    measured.map(({ path, other: perSecond, millrace, share }) => ({
      path,
      'Fastify and BullMQ': `${perSecond}/s`,
      millrace: `${millrace}/s`,
      ratio: share.toFixed(2),
      threshold: `>= ${THRESHOLD}`,
    })),
  );
  process.exitCode = measured.every(({ share }) => share >= THRESHOLD) ? 0 : 1;
});
