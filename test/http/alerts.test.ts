import { createHmac, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { NewAlert } from '../../src/core/governance/alert.ts';
import { raiseAlerts } from '../../src/ledger/alerts/raise-alert.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { Announcer } from '../../src/services/alerts/announcer.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { until } from '../until.ts';
import { IngestServer, useIngest } from './ingest-fixture.ts';

const server = useIngest();

const query = async (text: string, values: unknown[] = []) => (await server.database.maintenance.query(text, values)).rows;
const raise = (alert: Partial<NewAlert>) =>
  raiseAlerts(server.database.maintenance, [
    { kind: 'storage', severity: 'error', orgId: null, subject: `storage:${randomUUID()}`, message: 'It is full.', ...alert },
  ]);

async function newOrg(): Promise<string> {
  const id = randomUUID();
  await query('INSERT INTO millrace.orgs (id, slug) VALUES ($1, $2)', [id, `org-${id.slice(0, 8)}`]);
  return id;
}

const items = async (path: string, token?: string) => (await server.get(`/alerts${path}`, token)).body.items;

describe('alerts', () => {
  it('are listed newest first with the members of the contract, and repeats are counted', async () => {
    const orgId = await newOrg();
    await raise({ orgId, subject: 'job:1', count: 2 });
    await raise({ orgId, subject: 'job:1', message: 'It is still full.' });
    await raise({ orgId, subject: 'job:2', kind: 'slo', severity: 'warning' });
    const [second, first] = await items(`?org=${orgId}&state=open`);
    expect(second).toMatchObject({ kind: 'slo', severity: 'warning', subject: 'job:2', count: 1 });
    expect(first).toEqual({
      alert_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      kind: 'storage',
      severity: 'error',
      org_id: orgId,
      subject: 'job:1',
      message: 'It is still full.',
      count: 3,
      first_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      last_at: expect.any(String),
      state: 'open',
      acknowledged_at: null,
      acknowledged_by: null,
    });
    expect(await items(`?org=${orgId}&kind=slo`)).toHaveLength(1);
  });

  it('are acknowledged once, with an audit row', async () => {
    const orgId = await newOrg();
    await raise({ orgId });
    const [{ alert_id: id }] = await items(`?org=${orgId}`);
    const acknowledge = () => server.operate('POST', `/alerts/${id}/acknowledge`, { body: { reason: 'known' } });
    const { status, body } = await acknowledge();
    expect(status).toBe(200);
    expect(body).toMatchObject({
      alert_id: id,
      state: 'acknowledged',
      acknowledged_by: 'user:operator',
      acknowledged_at: expect.any(String),
    });
    expect((await acknowledge()).body).toEqual(body);
    expect(await items(`?org=${orgId}&state=open`)).toEqual([]);
    expect(await items(`?org=${orgId}&state=acknowledged`)).toEqual([body]);
    const rows = await query(`SELECT actor, details FROM ${ACTIONS} WHERE org_id = $1 AND event = 'alert.acknowledged'`, [orgId]);
    expect(rows).toEqual([{ actor: 'user:operator', details: { alert_id: id, kind: 'storage', subject: body.subject, reason: 'known' } }]);
  });

  it('come in pages, and a cursor belongs to its filter', async () => {
    const orgId = await newOrg();
    for (let n = 0; n < 5; n++) await raise({ orgId, subject: `job:${n}` });
    const seen: string[] = [];
    let cursor = '';
    do {
      const { body } = await server.get(`/alerts?org=${orgId}&limit=2${cursor}`);
      seen.push(...body.items.map((each: { subject: string }) => each.subject));
      cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`;
      // An alert that is raised again between two pages keeps its place.
      await raise({ orgId, subject: 'job:0' });
    } while (cursor !== '');
    expect(seen).toEqual(['job:4', 'job:3', 'job:2', 'job:1', 'job:0']);
    const { next_cursor: next } = (await server.get(`/alerts?org=${orgId}&limit=2`)).body;
    expect((await server.get(`/alerts?org=${orgId}&state=open&limit=2&cursor=${next}`)).status).toBe(400);
    expect((await server.get(`/alerts?limit=2&cursor=${next}`)).status).toBe(400);
  });

  it('of other orgs and of the platform are hidden from the key of an org', async () => {
    const [own, other] = [await newOrg(), await newOrg()];
    for (const orgId of [own, other, null]) await raise({ orgId });
    const { key } = await createKey(server.database, { orgId: own, name: 'operator', scopes: ['operator'] });
    expect((await items('', key)).map((each: { org_id: string }) => each.org_id)).toEqual([own]);
    expect((await server.get(`/alerts?org=${other}`, key)).status).toBe(404);
    const [{ alert_id: foreign }] = await items(`?org=${other}`);
    for (const token of [key]) {
      const { status, body } = await server.operate('POST', `/alerts/${foreign}/acknowledge`, { token });
      expect([status, body.error.code]).toEqual([404, 'NOT_FOUND']);
    }
    expect(await items(`?org=${other}&state=open`)).toHaveLength(1);
    expect((await server.get('/alerts', null)).status).toBe(401);
  });

  it.each(['nothing', '__proto__', '00000000-0000-4000-8000-00000000dead', '%00'])('refuse to acknowledge %s', async (id) => {
    expect((await server.operate('POST', `/alerts/${id}/acknowledge`)).status).toBeOneOf([400, 404]);
  });

  it.each(['?state=closed', '?kind=__proto__', '?limit=0', '?limit=1001', '?cursor=x', '?since=now'])(
    'refuse the query %s',
    async (path) => {
      expect((await server.get(`/alerts${path}`)).status).toBe(400);
    },
  );
});

describe('the announcer', () => {
  it('writes a line at the level error and counts the alert [AB-dead.06] [N51]', async () => {
    const lines = vi.spyOn(server.platform.telemetry.log, 'error');
    await raise({ kind: 'operation_halted', severity: 'critical', subject: 'operation:1', message: 'It halted.' });
    const line = () =>
      lines.mock.calls.find(([message, fields]) => message === 'alert' && (fields as { subject?: string }).subject === 'operation:1');
    await until('the line is written', () => line() !== undefined);
    expect(line()?.[1]).toMatchObject({ kind: 'operation_halted', severity: 'critical', reason: 'It halted.' });
    expect(await server.platform.telemetry.metrics.text()).toContain('alerts_total{kind="operation_halted",severity="critical"} 1');
    lines.mockRestore();
  });

  it('announces an alert once, however many processes there are [N51]', async () => {
    const announced: string[] = [];
    const { engine } = server.platform;
    await raise({ kind: 'dead_letter', subject: 'job:announced' });
    const others = Array.from(
      { length: 4 },
      () => new Announcer({ engine, announce: ({ subject }) => announced.push(subject), send: null }),
    );
    await Promise.all(others.flatMap((each) => [each.round(), each.round()]));
    const metrics = async () => await server.platform.telemetry.metrics.text();
    await until('it was announced', async () => (await query(`SELECT FROM millrace.alerts WHERE announced_at IS NULL`)).length, 0);
    const times = async () => {
      const here = announced.filter((subject) => subject === 'job:announced').length;
      return here + Number(/alerts_total\{kind="dead_letter",severity="error"\} (\d+)/.exec(await metrics())?.[1] ?? 0);
    };
    // The announcer of the process counts after it has marked the alert.
    await until('somebody has counted it', times, (seen) => seen > 0);
    expect(await times()).toBe(1);
  });

  it('sends an alert to the webhook, signed, until the receiver accepts it [AB-dead.06] [N51]', async () => {
    const received: { headers: Record<string, unknown>; body: string; status: number }[] = [];
    const receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        const status = received.length === 0 ? 500 : 204;
        received.push({ headers: request.headers, body: Buffer.concat(chunks).toString(), status });
        response.writeHead(status).end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void receiver.close());
    const secret = Buffer.from('a secret of 24 bytes....');
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/alerts`;
    const sender = new IngestServer({ toml: `[alerts]\nwebhook_url = "${url}"\nwebhook_secret = "whsec_${secret.toString('base64')}"\n` });
    await sender.open();
    onTestFinished(() => sender.close());
    await raiseAlerts(sender.database.maintenance, [
      { kind: 'dead_letter', severity: 'error', orgId: null, subject: 'job:sent', message: 'It failed.' },
    ]);
    // A sender that waited too long for the answer sends it once more.
    const hurry = () =>
      sender.database.maintenance.query('UPDATE millrace.alerts SET notify_after = millrace.clock() WHERE notified_at IS NULL');
    await until('it was accepted', async () => {
      await hurry();
      return received.length >= 2;
    });
    const [first, second] = received;
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(JSON.parse(second?.body ?? '')).toMatchObject({
      type: 'alert.raised',
      data: { subject: 'job:sent', kind: 'dead_letter', count: 1 },
    });
    const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = second?.headers ?? {};
    expect(signature).toBe(`v1,${createHmac('sha256', secret).update(`${id}.${at}.${second?.body}`).digest('base64')}`);
    await until(
      'that is noted',
      async () => {
        await hurry();
        return (await sender.database.maintenance.query('SELECT FROM millrace.alerts WHERE notified_at IS NOT NULL')).rowCount;
      },
      1,
    );
  });
});
