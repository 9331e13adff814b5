import { describe, expect, test } from 'vitest';
import { sweepArtifacts } from '../../src/engine/artifacts/artifact-sweeper.ts';
import { DAY_MS, useArtifacts } from './artifact-fixture.ts';

const server = useArtifacts();
const MINUTE_MS = 60_000;

async function linked(body: object = { expires_in: '15m' }) {
  const owner = await server.caller();
  const { artifact_id: id, created_at } = (await owner.upload('report', { 'x-artifact-name': 'report.txt' })).body;
  const link = await owner.caller.post(`/artifacts/${id}/link`, body);
  return { ...owner, id: id as string, createdAt: new Date(created_at), link };
}

describe('a link', () => {
  test('works without a key, with the headers of the content [N38]', async () => {
    const { link, id, createdAt } = await linked();
    expect(link.status).toBe(200);
    const response = await fetch(link.body.url);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('report');
    expect(response.headers.get('content-disposition')).toContain('attachment; filename="report.txt"');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(link.body.url).toContain(id);
    expect(new Date(link.body.expires_at).getTime()).toBeGreaterThanOrEqual(createdAt.getTime() + 15 * MINUTE_MS);
    expect((await fetch(link.body.url, { headers: { range: 'bytes=0-1' } })).status).toBe(206);
  });

  test('that was altered in any character is refused', async () => {
    const { link } = await linked();
    const url = new URL(link.body.url);
    const token = url.searchParams.get('link') as string;
    for (let at = 0; at < token.length; at += 3) {
      const other = token[at] === 'A' ? 'B' : 'A';
      url.searchParams.set('link', `${token.slice(0, at)}${other}${token.slice(at + 1)}`);
      expect((await fetch(url)).status).toBe(403);
    }
    for (const given of ['', 'x', `${token}A`, token.slice(1), `${token}=`, '__proto__']) {
      url.searchParams.set('link', given);
      expect((await fetch(url)).status).toBe(403);
    }
  });

  test('of one artifact does not open another, of the same or another org', async () => {
    const [one, two] = [await linked(), await linked()];
    const { artifact_id: other } = (await one.upload('other')).body;
    for (const id of [two.id, other, 'no-uuid']) expect((await fetch(one.link.body.url.replace(one.id, id))).status).toBe(403);
  });

  test('ends at its time', async () => {
    const { link } = await linked({ expires_in: 'PT10M' });
    await server.queue.ledger.moveClock(9 * MINUTE_MS);
    expect((await fetch(link.body.url)).status).toBe(200);
    await server.queue.ledger.moveClock(2 * MINUTE_MS);
    const late = await fetch(link.body.url);
    expect(late.status).toBe(403);
    expect(((await late.json()) as { message: string }).message).toContain('has expired');
  });

  test('ends with the artifact: 404 after it is removed', async () => {
    const { link, id, caller } = await linked({ expires_in: '1d' });
    await server.sweptByHand(async () => {
      await server.queue.ledger.db.api.query('UPDATE millrace.artifacts SET expires_at = millrace.clock() WHERE id = $1', [id]);
      expect((await fetch(link.body.url)).status).toBe(404);
      await sweepArtifacts(server.queue.ledger.db, server.storage);
    });
    expect((await fetch(link.body.url)).status).toBe(404);
    expect(server.objects(caller.orgId)).toEqual([]);
  });

  test('never outlives the artifact', async () => {
    const { caller, id } = await linked();
    await server.queue.ledger.moveClock(29 * DAY_MS);
    const { body } = await caller.post(`/artifacts/${id}/link`, { expires_in: '7d' });
    expect(body.expires_at).toBe((await caller.get(`/artifacts/${id}`)).body.expires_at);
  });

  test.each([{}, { expires_in: 60 }, undefined])('may be asked for with %j', async (body) => {
    expect((await linked(body)).link.status).toBe(200);
  });

  test.each([{ expires_in: '8d' }, { expires_in: '0s' }, { expires_in: 'soon' }, { expires_in: -1 }, { expires: '1h' }])(
    'cannot be asked for with %j',
    async (body) => {
      expect((await linked(body)).link.status).toBe(400);
    },
  );

  test('writes to the audit trail, without its secret', async () => {
    const { caller, id } = await linked({ expires_in: '15m', reason: 'for the auditor' });
    const [, action] = await server.actions(caller.orgId);
    expect(action).toMatchObject({ event: 'artifact.linked', details: { artifact_id: id, reason: 'for the auditor' } });
    expect(Object.keys(action?.details ?? {}).sort()).toEqual(['artifact_id', 'expires_at', 'reason']);
  });
});
