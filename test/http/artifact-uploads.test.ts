import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { sweepArtifacts } from '../../src/engine/artifacts/artifact-sweeper.ts';
import { until } from '../until.ts';
import { DAY_MS, sha256Of, useArtifacts } from './artifact-fixture.ts';

const server = useArtifacts();
const CHUNK = Buffer.alloc(65_536, 7);

/** Begins an upload by hand, so that it can stop in the middle. */
async function beginUpload(key: string, headers: string[]) {
  const { hostname, port } = new URL(server.queue.url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.write(['POST /queue/v1/artifacts HTTP/1.1', `Host: ${hostname}`, `Authorization: Bearer ${key}`, ...headers, '', ''].join('\r\n'));
  return socket;
}

const untilUploading = (orgId: string) =>
  until('bytes of the upload are on disk', async () => (await server.rows(orgId)).length === 1 && server.drafts().length === 1);

const untilNothingIsLeft = (orgId: string) =>
  until('nothing of the upload is left', async () => (await server.rows(orgId)).length === 0 && server.drafts().length === 0);

describe('an upload that does not end', () => {
  test('leaves nothing when its client goes away', async () => {
    const { caller, key } = await server.caller();
    const socket = await beginUpload(key, ['Content-Length: 1000000']);
    socket.write(CHUNK);
    await untilUploading(caller.orgId);
    socket.destroy();
    await untilNothingIsLeft(caller.orgId);
    expect(server.objects(caller.orgId)).toEqual([]);
    expect(await server.actions(caller.orgId)).toEqual([]);
  });

  test('leaves nothing when its chunks are broken', async () => {
    const { caller, key } = await server.caller();
    const socket = await beginUpload(key, ['Transfer-Encoding: chunked']);
    socket.on('error', () => {});
    socket.write(Buffer.concat([Buffer.from('10000\r\n'), CHUNK, Buffer.from('\r\n')]));
    await untilUploading(caller.orgId);
    socket.write('not a length\r\n');
    await untilNothingIsLeft(caller.orgId);
  });

  test('is not seen by readers, and is removed after a day if its process died', async () => {
    const { caller } = await server.caller();
    const id = '0b7e1f0e-1111-4a86-9d0f-3f7f5a8c2e11';
    const place = { bucket: 'artifacts', key: `artifacts/${caller.orgId}/${id}` };
    // The process was killed after it stored the object and before it showed the row.
    await server.queue.ledger.db.api.query(
      `INSERT INTO millrace.artifacts (id, org_id, state, name, content_type, bucket, object_key, created_by, created_at, expires_at)
       VALUES ($1, $2, 'uploading', 'x', 'text/plain', $3, $4, 'system:test', millrace.clock(), millrace.clock() + interval '1 day')`,
      [id, caller.orgId, place.bucket, place.key],
    );
    await server.storage.store.put(place, toStream('x'));
    expect((await caller.get(`/artifacts/${id}`)).status).toBe(404);
    await sweep();
    expect(server.objects(caller.orgId)).toEqual([id]);
    await server.sweptByHand(async () => {
      await server.queue.ledger.moveClock(DAY_MS + 60_000);
      await sweep();
    });
    expect(server.objects(caller.orgId)).toEqual([]);
    expect(await server.rows(caller.orgId)).toEqual([]);
  });
});

describe('the sweeper', () => {
  test('removes an artifact after its retention, first from readers', async () => {
    const { caller, upload } = await server.caller();
    const { body } = await upload('old');
    await server.sweptByHand(async () => {
      await server.queue.ledger.moveClock(30 * DAY_MS + 60_000);
      expect((await caller.get(`/artifacts/${body.artifact_id}`)).status).toBe(404);
      expect(server.objects(caller.orgId)).toEqual([body.artifact_id]);
      await sweep();
    });
    expect(server.objects(caller.orgId)).toEqual([]);
    expect(await server.rows(caller.orgId)).toEqual([]);
  });

  test('tries again while the store is down, and then leaves nothing', async () => {
    const { caller, upload } = await server.caller();
    await upload('old');
    await server.sweptByHand(async () => {
      await server.queue.ledger.moveClock(30 * DAY_MS + 60_000);
      const down = { ...server.storage.store, delete: () => Promise.reject(new Error('down')) };
      await expect(sweepArtifacts(server.queue.ledger.db, { store: down })).rejects.toThrow('down');
      expect(await server.rows(caller.orgId)).toMatchObject([{ state: 'removed' }]);
      await server.queue.ledger.moveClock(10 * 60_000);
      await sweep();
    });
    expect(await server.rows(caller.orgId)).toEqual([]);
    expect(server.objects(caller.orgId)).toEqual([]);
  });

  test('removes the artifacts of an org that is deleted', async () => {
    const { caller, upload } = await server.caller();
    await upload('theirs');
    await server.sweptByHand(async () => {
      await server.queue.ledger.db.api.query('DELETE FROM millrace.api_keys WHERE org_id = $1', [caller.orgId]);
      await server.queue.ledger.db.api.query('DELETE FROM millrace.orgs WHERE id = $1', [caller.orgId]);
      await sweep();
    });
    expect(server.objects(caller.orgId)).toEqual([]);
  });
});

describe('an upload that arrives slowly', () => {
  test('may take longer than other requests, if it keeps the rate', async () => {
    // The server also ends a connection that is idle for so long. A busy machine must not make this one look idle.
    const receiveTimeoutMs = 6_000;
    const url = await server.queue.listen({ receiveTimeoutMs, headersTimeoutMs: receiveTimeoutMs, uploadGraceMs: 60_000 });
    const { caller, key } = await server.caller();
    const post = (path: string) => {
      const { hostname, port } = new URL(url);
      const socket = connect(Number(port), hostname);
      const received = { socket, text: '' };
      socket.on('data', (data) => {
        received.text += data;
      });
      socket.write(`POST /queue/v1${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n`);
      socket.write(`Content-Type: application/json\r\nContent-Length: ${CHUNK.length}\r\n\r\n`);
      return received;
    };
    const upload = post('/artifacts');
    const submission = post('/jobs');
    let sent = 0;
    // Both send bytes all the time, so that no connection is idle.
    await until('the time for the submission is over', () => {
      upload.socket.write(CHUNK.subarray(sent, sent + 16));
      if (submission.text === '') submission.socket.write(' ');
      sent += 16;
      return submission.text.startsWith('HTTP/1.1 408 ');
    });
    upload.socket.write(CHUNK.subarray(sent));
    await until('the server has responded', () => upload.text.includes('\r\n\r\n'));
    expect(upload.text).toMatch(/^HTTP\/1.1 201 /);
    expect(upload.text).toContain(sha256Of(CHUNK));
    expect(await server.rows(caller.orgId)).toHaveLength(1);
    upload.socket.destroy();
    submission.socket.destroy();
  });

  test('ends below the rate, and leaves nothing', async () => {
    const url = await server.queue.listen({ uploadGraceMs: 100, minUploadRate: 1_000_000 });
    const { caller, key } = await server.caller();
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const closed = once(socket, 'close');
    let answer = '';
    socket.on('data', (data) => {
      answer += data;
    });
    socket.write(
      `POST /queue/v1/artifacts HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\nContent-Length: 65536\r\n\r\nx`,
    );
    await closed;
    expect(answer).toMatch(/^HTTP\/1.1 408 /);
    await untilNothingIsLeft(caller.orgId);
  });
});

const sweep = () => sweepArtifacts(server.queue.ledger.db, server.storage);

async function* toStream(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
