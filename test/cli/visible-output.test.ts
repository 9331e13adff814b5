/** Values from outside that a terminal would obey. */
import { describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { ask, folderWith, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

/** Clears the screen, sets the title, turns the text around, ends the line and forges another. */
const HOSTILE = 'x\u001b[2J\u001b]0;owned\u0007\u009b31m\u007f\u202eevil\u2066\u200f\u061c\u2028\r\nfailed pay 1: forged\b';
const OBEYED = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u;
const FORGED = /^\s*failed pay 1/m;

const THROWS = `export const handlers = { hostile: { maxAttempts: 1, handler(context, { text }) {
  context.log('info', text, { text });
  throw Object.assign(new Error(text), { context: { text } });
} } };`;

describe('output', () => {
  it('shows what a terminal would obey, in every line about jobs', async () => {
    const submission = ['jobs', 'submit', 'hostile', JSON.stringify({ text: HOSTILE }), '--tag', `note=${HOSTILE}`];
    const { jobId } = await ask<{ jobId: string }>(submission, here());
    const worker = start(['work', 'hostile.js'], { ...here(), cwd: folderWith({ 'hostile.js': THROWS }) });
    await worker.said(new RegExp(`failed hostile ${jobId}`));
    worker.kill('SIGINT');
    const { stdout } = await worker.ended;
    expect(stdout).toContain(`info hostile ${jobId}: x\\u001b[2J\\u001b]0;owned\\u0007\\u009b31m\\u007f\\u202eevil`);
    const shown = await run(['jobs', 'get', jobId, '--attempts'], here());
    const listed = await run(['jobs', 'list', '--type', 'hostile'], here());
    for (const text of [stdout, shown.stdout, listed.stdout]) {
      expect(text).toContain('hostile');
      expect(text.replaceAll('\n', '')).not.toMatch(OBEYED);
      expect(text).not.toMatch(FORGED);
    }
  });

  it('shows it in JSON, which means the same', async () => {
    const submission = ['jobs', 'submit', 'hostile', JSON.stringify({ text: HOSTILE })];
    const { jobId } = await ask<{ jobId: string }>(submission, here());
    const { stdout } = await run(['jobs', 'get', jobId, '--json'], here());
    expect(stdout.replaceAll('\n', '')).not.toMatch(OBEYED);
    expect(JSON.parse(stdout).payload).toEqual({ text: HOSTILE });
  });

  it('shows it in errors and warnings', async () => {
    const wrong = await run(['jobs', 'get', HOSTILE.replaceAll('\u0000', '')], here());
    expect(wrong.code).not.toBe(0);
    const unknown = await run([HOSTILE, '--verbose'], here());
    expect(unknown.code).toBe(2);
    const warned = await run(['config', 'print'], { env: { 'MILLRACE_XYZ_\u202e\u001b[2J': '1' } });
    for (const { stderr } of [wrong, unknown, warned]) {
      expect(stderr).not.toBe('');
      expect(stderr.replaceAll('\n', '')).not.toMatch(OBEYED);
      expect(stderr).not.toMatch(/^failed pay 1/m);
    }
  });

  it('keeps the lines of the program itself', async () => {
    const { stdout } = await run(['help', 'work']);
    expect(stdout.split('\n').length).toBeGreaterThan(10);
    expect(stdout).not.toContain('\\n');
  });
});
