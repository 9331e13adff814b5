/** A disk that is full, as PostgreSQL reports it: SQLSTATE 53100, here raised by a trigger. */
import { expect, it } from 'vitest';
import { ERRORS } from '../../src/core/errors.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { logged } from './observed-process.ts';
import { run, start } from './program.ts';

const ledger = useLedger();

const FILL = `
  CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
    RAISE EXCEPTION 'could not extend file "base/5/16400": No space left on device' USING ERRCODE = 'TG_STATE';
  END$$;
  CREATE TRIGGER no_space BEFORE INSERT ON millrace.jobs FOR EACH STATEMENT EXECUTE FUNCTION no_space()`;
const MAKE_ROOM = 'DROP FUNCTION no_space() CASCADE';

const sql = (text: string) => ledger.db.maintenance.query(text);

async function ownerOf(url: string) {
  const orgId = await ledger.newOrg();
  const { key } = await createKey(ledger.db, { orgId });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const submit = async () => {
    const body = JSON.stringify({ type: 'echo', payload: {}, idempotency_key: 'one job' });
    const answer = await fetch(`${url}/queue/v1/jobs`, { method: 'POST', headers, body });
    return { status: answer.status, retryAfter: answer.headers.get('retry-after'), body: (await answer.json()) as Record<string, unknown> };
  };
  return { orgId, submit };
}

const readiness = async (url: string) => {
  const answer = await fetch(`${url}/readyz`);
  return { ...((await answer.json()) as { code?: string; reasons: string[] }), status: answer.status };
};

it.each(['53100', '58030'])(
  'a full disk (%s) is reported as such to callers, in the readiness and in the log, and is over once there is room',
  async (sqlState) => {
    const serve = start(['serve', '--port', '0', '--json'], { database: ledger.db.url });
    const { url } = JSON.parse((await serve.said(/^.*"url".*$/m))[0]) as { url: string };
    const [ada, bob] = [await ownerOf(url), await ownerOf(url)];
    await sql(FILL.replace('TG_STATE', sqlState));
    for (const owner of [ada, bob]) {
      expect(await owner.submit()).toMatchObject({
        status: 503,
        retryAfter: '5',
        body: {
          code: 'DATABASE_DISK_FULL',
          message: `The disk of the database is full. Nothing was changed. ${ERRORS.DATABASE_DISK_FULL.remedy}`,
        },
      });
    }
    // The readiness follows from a write that failed within the last five seconds. Each look makes one.
    const full = 'The disk of the database is full. Jobs are accepted again once there is room on it.';
    await until(
      'the readiness says that the disk is full',
      async () => {
        await ada.submit();
        const { status, code, reasons } = await readiness(url);
        return { status, code, reasons };
      },
      { status: 503, code: 'DATABASE_DISK_FULL', reasons: [full] },
    );
    await serve.said(/"event":"disk_full","message":"could not extend file/);
    expect(await logged(serve, { message: 'database.disk_full' })).toMatchObject({
      level: 'error',
      error_message: expect.stringContaining('could not extend file'),
    });
    const byHand = await run(['jobs', 'submit', 'echo'], { database: ledger.db.url });
    expect(byHand).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error: The disk of the database is full\. Nothing was changed\. Free/),
    });
    await sql(MAKE_ROOM);
    for (const owner of [ada, bob]) expect(await owner.submit()).toMatchObject({ status: 202, body: { status: 'ACCEPTED' } });
    await until('the server is ready again', async () => (await readiness(url)).status, 200);
    await serve.said(/"event":"database_back"/);
    await logged(serve, { message: 'database.back' });
    const { rows } = await sql(`SELECT count(*)::int4 AS jobs FROM millrace.jobs WHERE org_id IN ('${ada.orgId}', '${bob.orgId}')`);
    expect(rows).toEqual([{ jobs: 2 }]);
  },
);
