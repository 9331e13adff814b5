/**
 * Your rows and your jobs in one transaction. The order and the job that ships it are committed together, or neither is.
 * The handler does the same at its end: `completeIn` completes the job in the transaction that writes its effect. So the
 * effect happens exactly once, even if the job runs several times.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { ship: { payload: { order: number }; result: { parcel: string } } };

// A separate queue and table, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const tags = { run: queue };
const orders = `orders_${queue.slice(-12)}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });
const pool = new pg.Pool({ connectionString: millrace.databaseUrl });
await pool.query(`CREATE TABLE ${orders} (id serial PRIMARY KEY, item text NOT NULL, parcel text)`);

async function transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

const place = (item: string, isPaid: boolean) =>
  transaction(async (client) => {
    const { rows } = await client.query(`INSERT INTO ${orders} (item) VALUES ($1) RETURNING id`, [item]);
    const { jobId } = await millrace.submit({ type: 'ship', payload: { order: rows[0].id }, queue, tags }, { client });
    if (!isPaid) throw new Error('the card was refused');
    return jobId;
  });

millrace.register({
  type: 'ship',
  handler: (context, { order }) =>
    transaction(async (client) => {
      const parcel = `parcel-${order}`;
      await client.query(`UPDATE ${orders} SET parcel = $2 WHERE id = $1`, [order, parcel]);
      await context.completeIn(client, { parcel });
      return { parcel };
    }),
});

await place('lamp', false).catch((error: Error) => console.log(`not ordered: ${error.message}`));
const jobId = await place('chair', true);
await millrace.start();
const job = await millrace.waitFor(jobId, { timeout: '30s' });
const { rows } = await pool.query(`SELECT item, parcel IS NOT NULL AS shipped FROM ${orders}`);
const { jobs } = await millrace.search({ tags });
console.log(`orders: ${JSON.stringify(rows)}, jobs: ${jobs.length}, the job: ${job.state}`);
await pool.query(`DROP TABLE ${orders}`);
await pool.end();
await millrace.close();
