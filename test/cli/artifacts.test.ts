import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { sha256Of } from '../http/artifact-fixture.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const folder = mkdtempSync(join(tmpdir(), 'artifacts-cli-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const here = () => ({ database: ledger.db.url, cwd: folder, env: { MILLRACE_OBJECTS_FOLDER: join(folder, 'objects') } });

type Shown = { artifact: { id: string; name: string; size: number; sha256: string } };

async function orgOptions() {
  const id = await ledger.newOrg();
  return { id, org: ['--org', `org-${id.slice(0, 13)}`] };
}

describe('millrace artifacts', () => {
  it('put stores a file, get returns its bytes, and link leads to them', async () => {
    const { org } = await orgOptions();
    writeFileSync(join(folder, 'days.csv'), 'a,b\n');
    const { artifact } = await ask<Shown>(['artifacts', 'put', 'days.csv', '--content-type', 'text/csv', ...org], here());
    expect(artifact).toMatchObject({ name: 'days.csv', size: 4, sha256: sha256Of('a,b\n') });
    expect((await run(['artifacts', 'get', artifact.id, ...org], here())).stdout).toBe('a,b\n');
    expect(await ask<Shown>(['artifacts', 'get', artifact.id, ...org], here())).toEqual({ artifact });
    const saved = await run(['artifacts', 'get', artifact.id, '-o', 'copy.csv', ...org], here());
    expect([saved.code, saved.stdout]).toEqual([0, 'Wrote 4 bytes to copy.csv.\n']);
    expect(readFileSync(join(folder, 'copy.csv'), 'utf8')).toBe('a,b\n');
    const link = await run(['artifacts', 'link', artifact.id, '--expires', '1h', '--url', 'https://jobs.example.com', ...org], here());
    expect(link.stdout).toMatch(new RegExp(`^https://jobs\\.example\\.com/queue/v1/artifacts/${artifact.id}/content\\?link=[\\w-]+\n$`));
    expect(link.stderr).toMatch(/^It works until 2/);
  });

  it('put reads stdin, checks the checksum, and needs one for an import', async () => {
    const { org, id } = await orgOptions();
    const put = (...args: string[]) => run(['artifacts', 'put', '-', ...args, ...org], { ...here(), stdin: 'x' });
    expect((await put('--import')).code).toBe(2);
    expect((await put('--sha256', sha256Of('y'))).stderr).toContain('Nothing was stored');
    expect((await ledger.db.api.query('SELECT 1 FROM millrace.artifacts WHERE org_id = $1', [id])).rowCount).toBe(0);
    expect((await put('--import', '--sha256', sha256Of('x'), '--name', 'in.csv')).stdout).toMatch(/^name +in\.csv$/m);
  });

  it('put says which file cannot be read', async () => {
    expect(await run(['artifacts', 'put', 'missing.csv'], here())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('missing.csv'),
    });
    expect(await run(['artifacts', 'put', '.'], here())).toMatchObject({ code: 2, stderr: expect.stringContaining('is a folder') });
  });

  it('get leaves no file if the bytes are damaged or belong to another org', async () => {
    const [one, two] = [await orgOptions(), await orgOptions()];
    const put = await run(['artifacts', 'put', '-', '--json', ...one.org], { ...here(), stdin: 'right' });
    const { artifact } = JSON.parse(put.stdout) as Shown;
    const foreign = await run(['artifacts', 'get', artifact.id, '-o', 'foreign.bin', ...two.org], here());
    expect([foreign.code, existsSync(join(folder, 'foreign.bin'))]).toEqual([1, false]);
    writeFileSync(join(folder, 'objects', 'fetchbox', 'artifacts', one.id, artifact.id), 'wrong');
    const damaged = await run(['artifacts', 'get', artifact.id, '-o', 'damaged.bin', ...one.org], here());
    expect(damaged.stderr).toContain('no longer have its checksum');
    expect(readdirSync(folder).filter((name) => name.includes('damaged'))).toEqual([]);
  });

  it('list says that a job has none, and that it does not exist', async () => {
    const { id, org } = await orgOptions();
    const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
    await engine.open();
    const { jobId } = await submitJob(engine, {
      orgId: id,
      submission: { type: 'idle', payload: {}, idempotencyKey: 'k\n1' },
      actor: null,
    });
    await engine.close(0);
    expect((await run(['artifacts', 'list', jobId, ...org], here())).stdout).toBe('The job has no artifacts.\n');
    expect((await run(['artifacts', 'list', jobId], here())).stderr).toContain('Choose its org with --org');
    const shown = await run(['idempotency', 'show', 'k\n1', '--type', 'idle', ...org], here());
    expect(shown.stdout).toMatch(new RegExp(`^key +k\\\\n1\ntype +idle\njob +${jobId}\nstatus +pending\n`));
    expect((await run(['idempotency', 'show', 'never', ...org], here())).stderr).toContain('is not in use');
  });
});
