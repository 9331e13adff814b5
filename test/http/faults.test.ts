/** What the HTTP door promises when what it stands on fails, shown on a real server process and a PostgreSQL of its own. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { crashDatabase } from '../../chaos/database-crash.ts';
import { judge } from '../../chaos/judge.ts';
import { createPostgres, type PostgresServer } from '../../chaos/postgres-server.ts';
import { Program } from '../../chaos/program.ts';
import { killServer } from '../../chaos/server-kill.ts';

const NOTHING_WRONG = { lost: 0, duplicated: 0, unfinished: 0, violations: [] };

let postgres: PostgresServer;
let program: Program;

beforeAll(async () => {
  postgres = await createPostgres();
  program = new Program(postgres.url);
  await program.start();
});
afterAll(async () => {
  await program?.kill();
  await postgres?.remove();
});

it('while the database is away every answer is 503 with Retry-After, and nothing acknowledged is lost', async () => {
  const { pid } = program;
  const report = await crashDatabase({ postgres, program, callers: 8, jobs: 50, downMs: 500 });
  expect(report).toMatchObject({ ...NOTHING_WRONG, withoutRetryAfter: 0, exits: 0 });
  expect(report.acknowledged).toBeGreaterThanOrEqual(100);
  expect(Object.keys(report.answers)).toEqual(['503']);
  expect(program.pid).toBe(pid);
});

it('reads are also refused with 503 while the database is away, and the health check still succeeds', async () => {
  await postgres.crash();
  const headers = { authorization: `Bearer ${program.key}` };
  for (const path of [`/queue/v1/jobs/${randomUUID()}`, '/queue/v1/jobs', '/queue/v1/stats', '/readyz']) {
    const answer = await fetch(program.url + path, { headers });
    expect([path, answer.status]).toEqual([path, 503]);
    expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  }
  expect((await fetch(`${program.url}/healthz`)).status).toBe(200);
  await postgres.start();
});

it('after kill -9 of the server every acknowledged job is there and finishes, once for its key', async () => {
  const report = await killServer({ postgres, program, callers: 8, jobs: 50, kills: 2 });
  expect(report).toMatchObject(NOTHING_WRONG);
  expect(report.acknowledged).toBeGreaterThanOrEqual(100);
});

it('a job that was acknowledged and is not there, or is there twice, would be found', async () => {
  const acknowledged = new Map([
    ['a', new Set([randomUUID()])],
    ['b', new Set([randomUUID(), randomUUID()])],
  ]);
  expect(await judge(postgres.url, acknowledged)).toMatchObject({ acknowledged: 2, lost: 3, duplicated: 1 });
});
