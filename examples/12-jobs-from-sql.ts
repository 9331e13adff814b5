/**
 * Jobs from SQL. The function `millrace.submit` submits a job from any client of the database, here from a trigger: each new user gets
 * a welcome mail, whoever inserts the row. The job belongs to the transaction of the row, so a rollback leaves neither.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { welcome: { payload: { user: number; email: string }; result: string } };

// A separate queue and table, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const users = `users_${queue.slice(-12)}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });
await millrace.queues.configure(queue, { order: 'fair' }); // SQL can use only queues that exist.

const client = new pg.Client({ connectionString: millrace.databaseUrl });
await client.connect();
await client.query(`
  CREATE TABLE ${users} (id serial PRIMARY KEY, email text NOT NULL);
  CREATE FUNCTION welcome_${users}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM millrace.submit('welcome', jsonb_build_object('user', NEW.id, 'email', NEW.email),
      queue => '${queue}', idempotency_key => '${users}-' || NEW.id, tags => '{"run": "${queue}"}');
    RETURN NULL;
  END $$;
  CREATE TRIGGER welcome AFTER INSERT ON ${users} FOR EACH ROW EXECUTE FUNCTION welcome_${users}()`);

await client.query('BEGIN');
await client.query(`INSERT INTO ${users} (email) VALUES ('gone@example.com')`);
await client.query('ROLLBACK');
await client.query(`INSERT INTO ${users} (email) VALUES ('ada@example.com'), ('grace@example.com')`);

millrace.register({ type: 'welcome', handler: (_, { email }) => `sent to ${email}` });
await millrace.start();
const { jobs } = await millrace.search({ types: ['welcome'], tags: { run: queue } });
const ended = await Promise.all(jobs.map(({ id }) => millrace.waitFor(id, { timeout: '30s' })));
console.log(`jobs: ${jobs.length}`);
for (const { result } of ended.toSorted((one, other) => one.payload.user - other.payload.user)) console.log(result?.output);

// The function refuses what the library refuses, with the same codes.
const refusal = await client.query(`SELECT millrace.submit('', '{}')`).catch((error: pg.DatabaseError) => error);
if (refusal instanceof Error) console.log(`${refusal.code}: ${refusal.message}`);

await client.query(`DROP TABLE ${users}; DROP FUNCTION welcome_${users}`);
await client.end();
await millrace.close();
