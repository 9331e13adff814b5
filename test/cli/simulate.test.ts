import { execFile } from 'node:child_process';
import { chmodSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { WORK_KINDS } from '../../src/core/execution/kinds.ts';
import type { Summary } from '../../src/simulator/summary.ts';
import { useLedger } from '../ledger/fixture.ts';
import { isOnlyLate } from './only-late.ts';
import { folderWith, run, start } from './program.ts';

const ledger = useLedger();
const shell = promisify(execFile);
const SCALE = ['--time-scale', '0.01'];
/** Two jobs, one of each kind. The first of a kind is not deferred, so that a busy machine cannot make it late. */
const AT_ONCE = ['--jobs', '2', '--clients', '2'];
const embedded = () => ['simulate', '--embedded', '--database', ledger.db.url, ...SCALE];

/** A folder for temporary files of its own, which others may pass through. */
function ownTemporary(): string {
  const folder = folderWith({});
  chmodSync(folder, 0o711);
  return folder;
}

describe('simulate', { timeout: 120_000 }, () => {
  it('drives all 31 kinds, restart included, and exits with 0 when each ended as it should [FR-04.02]', async () => {
    const cwd = folderWith({});
    const { code, stdout } = await run([...embedded(), '--all', '--far-future', '1s', '--json', '--html', 'run.html'], {
      cwd,
    });
    const summary = JSON.parse(stdout) as Summary;
    const late = summary.problems.filter(isOnlyLate);
    expect(summary.problems).toEqual(late);
    const isOk = late.length === 0;
    expect(code).toBe(isOk ? 0 : 1);
    expect(summary).toMatchObject({ ok: isOk, driven: 124, notes: [] });
    expect(summary.asExpected).toBeGreaterThanOrEqual(124 - late.length);
    expect(summary.kinds.map(({ kind }) => kind)).toEqual(WORK_KINDS);
    expect(await readFile(join(cwd, 'run.html'), 'utf8')).toContain(isOk ? 'Every job ended as expected' : 'was queued');
  });

  it('brings its own database, needs nothing else, and leaves nothing behind [FR-03.02]', async () => {
    const temporary = ownTemporary();
    const args = ['simulate', '--embedded', ...SCALE, '--kinds', 'SUCCESS_FAST,FAIL_IMMEDIATE', ...AT_ONCE];
    const { code, stdout, stderr } = await run(args, {
      cwd: folderWith({}),
      database: 'postgres://127.0.0.1:1/nobody',
      env: { TMPDIR: temporary },
    });
    expect(stderr).toMatch(/Starting a server for this run\.\nDriving http:\/\/127\.0\.0\.1:\d+\./);
    expect(stdout).toMatch(/Every job ended as expected: 2 kinds, 2 scenarios, 2 jobs/);
    expect(code).toBe(0);
    expect(readdirSync(temporary)).toEqual([]);
  });

  it('exits with 1 and says what differs when an outcome is made wrong', async () => {
    const args = ['--kinds', 'SUCCESS_FAST', '--clients', '1', '--expect', 'SUCCESS_FAST=FAILED'];
    const { code, stdout } = await run([...embedded(), ...args], { cwd: folderWith({}) });
    expect(stdout).toMatch(/SUCCESS_FAST {2}[0-9a-f-]{36} {2}ended SUCCEEDED, expected FAILED/);
    expect(stdout).toMatch(/1 of 1 scenarios differ/);
    expect(code).toBe(1);
  });

  it('drives a server that runs already, as anybody can by hand, and says so where there is none [FR-01.04]', async () => {
    const up = start(['up', '--json', '--port', '0'], { database: ledger.db.url, cwd: folderWith({}) });
    const [line] = await up.said(/.+\n/);
    const { url } = JSON.parse(line as string);
    const byHand = [
      `CLIENT=$(curl -s -X POST ${url}/v1/clients | sed 's/.*"client_id":"\\([^"]*\\)".*/\\1/')`,
      `KEY=$(curl -s -X POST ${url}/v1/clients/$CLIENT/keys | sed 's/.*"api_key":"\\([^"]*\\)".*/\\1/')`,
      `curl -s ${url}/v1/jobs -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d '{"type":"EXECUTE","work_kind":"FAIL_IMMEDIATE"}'`,
    ];
    const { stdout } = await shell('sh', ['-c', byHand.join('\n')]);
    expect(JSON.parse(stdout)).toMatchObject({ job_id: expect.any(String), state: 'QUEUED' });
    const args = ['--kinds', 'FAIL_IMMEDIATE', '--jobs', '1', '--clients', '1'];
    const driven = await run(['simulate', '--url', url, ...args], { cwd: folderWith({}) });
    expect(driven).toMatchObject({ code: 0, stdout: expect.stringContaining('1 kinds, 1 scenarios, 1 jobs') });
    up.kill('SIGTERM');
    await up.ended;
    const none = await run(['simulate', '--url', url, ...args], { cwd: folderWith({}) });
    expect(none).toMatchObject({ code: 1, stderr: expect.stringMatching(/No server responds at .*--embedded/) });
  });

  it('refuses a wrong command line with 2 and starts nothing', async () => {
    const { code, stderr } = await run(['simulate', '--embedded', '--kinds', 'SUCCESS_FASTER']);
    expect(stderr).toMatch(/--kinds does not know "SUCCESS_FASTER".*Did you mean|SUCCESS_FAST/);
    expect(code).toBe(2);
  });

  it('stops on a signal, takes its server with it and exits with 130', async () => {
    const temporary = ownTemporary();
    const args = ['--kinds', 'SCHEDULED_FAR_FUTURE', '--far-future', '24h', '--clients', '1'];
    const running = start([...embedded(), ...args], { cwd: folderWith({}), env: { TMPDIR: temporary } });
    await running.complained(/in flight 1/);
    running.kill('SIGINT');
    const { code, stdout } = await running.ended;
    expect(stdout).toMatch(/Interrupted after/);
    expect(code).toBe(130);
    expect(readdirSync(temporary)).toEqual([]);
  });
});
