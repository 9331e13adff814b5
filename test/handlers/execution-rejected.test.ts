import { describe, expect, it } from 'vitest';
import { useExecution } from '../http/execution-fixture.ts';

const server = useExecution();

describe('PAYLOAD_INVALID', () => {
  it.each(['EXECUTE', 'EMIT_EVENT', 'DEFERRED'])(
    'of %s is refused with a validation error, and no job exists afterwards [FR-06.49]',
    async (type) => {
      const client = await server.client();
      const later = type === 'DEFERRED' ? { execution_at: new Date(Date.now() + 60_000).toISOString() } : {};
      const { status, body } = await client.post('/jobs', { type, work_kind: 'PAYLOAD_INVALID', ...later });
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: 'RFA_JOB_VALIDATION_FAILED', errors: [{ field: 'work_kind' }] });
      expect((await client.get('/jobs')).body.jobs).toEqual([]);
      for (const table of ['jobs', 'records', 'idempotency_keys']) {
        const text = `SELECT count(*)::int4 AS count FROM millrace.${table} WHERE org_id = $1`;
        const { rows } = await server.ledger.db.api.query(text, [client.clientId]);
        expect(rows, table).toEqual([{ count: 0 }]);
      }
    },
  );

  it('leaves its idempotency key free for a job that is accepted [FR-06.49]', async () => {
    const client = await server.client();
    const request = { type: 'EXECUTE', idempotency_key: 'once' };
    expect((await client.post('/jobs', { ...request, work_kind: 'PAYLOAD_INVALID' })).status).toBe(400);
    expect((await client.post('/jobs', { ...request, work_kind: 'PAYLOAD_SMALL' })).status).toBe(202);
  });
});
