import { beforeAll, expect, it } from 'vitest';
import { useBench } from '../library/fixture.ts';

const bench = useBench();

// What a claim was given is only seen from inside it.
beforeAll(async () => {
  await bench.ledger.db.maintenance.query(`
    CREATE TABLE millrace.claim_times (job_type text, statement_timeout text);
    CREATE FUNCTION millrace.note_claim_time() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
      INSERT INTO millrace.claim_times VALUES (NEW.job_type, current_setting('statement_timeout'));
      RETURN NULL;
    END$$;
    CREATE TRIGGER note_claim_time AFTER INSERT ON millrace.claims FOR EACH ROW EXECUTE FUNCTION millrace.note_claim_time()`);
});

it('a claim under a cap has no more time than any other', async () => {
  const millrace = await bench.open();
  millrace.register({ type: 'capped', concurrency: 1, handler: () => null });
  await millrace.start();
  const { jobId } = await millrace.submit({ type: 'capped', payload: {} });
  await millrace.waitFor(jobId);
  const { rows } = await bench.ledger.db.maintenance.query('SELECT * FROM millrace.claim_times');
  expect(rows).toEqual([{ job_type: 'capped', statement_timeout: '2s' }]);
});
