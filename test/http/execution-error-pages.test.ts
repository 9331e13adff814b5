import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { PROBLEM_CODES, PROBLEMS } from '../../src/http/execution/problem-codes.ts';
import { bodyOf, serve } from './server-fixture.ts';

const HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const JSON_ONLY = { accept: 'application/json' };

describe('GET /docs/errors/<code>, where the type of a problem leads', () => {
  it('is a page for each code: its title, its status and what to do [FR-14.93] [FR-14.101]', async () => {
    const { url } = await serve();
    for (const code of PROBLEM_CODES) {
      const answer = await fetch(`${url}/docs/errors/${code}`, { headers: HTML });
      expect([code, answer.status, answer.headers.get('content-type')]).toEqual([...[code, 200, 'text/html; charset=utf-8']]);
      const html = (await answer.text()).replaceAll('&lt;', '<').replaceAll('&gt;', '>');
      const { status, title, action } = PROBLEMS[code];
      for (const said of [code, title, String(status), action]) expect(html).toContain(said);
    }
  });

  it('holds no script, and may load nothing', async () => {
    const { url } = await serve();
    for (const path of ['/docs/errors', '/docs/errors/RFA_INTERNAL', '/docs/errors/NOBODY']) {
      const answer = await fetch(url + path, { headers: HTML });
      const html = await answer.text();
      expect(html).not.toMatch(/<script|<link|<img|https?:\/\/| style=/);
      const [, style = ''] = /<style>(.*)<\/style>/s.exec(html) ?? [];
      const hash = createHash('sha256').update(style).digest('base64');
      const policy = answer.headers.get('content-security-policy')?.split('; ');
      const closed = ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"];
      expect(policy).toEqual(["default-src 'none'", `style-src 'sha256-${hash}'`, ...closed]);
    }
  });

  it('is JSON for clients that accept JSON', async () => {
    const { url } = await serve();
    const answer = await fetch(`${url}/docs/errors/RFA_JOB_NOT_FOUND`, { headers: JSON_ONLY });
    expect(answer.headers.get('content-type')).toContain('application/json');
    expect(await answer.json()).toEqual({ code: 'RFA_JOB_NOT_FOUND', ...PROBLEMS.RFA_JOB_NOT_FOUND });
  });

  it('says that an unknown error code does not exist, without repeating it', async () => {
    const { url } = await serve();
    const page = await fetch(`${url}/docs/errors/%3Cscript%3Ealert(1)%3C%2Fscript%3E`, { headers: HTML });
    expect(page.status).toBe(404);
    expect(await page.text()).not.toContain('alert');
    const json = await fetch(`${url}/docs/errors/toString`, { headers: JSON_ONLY });
    expect([json.status, (await bodyOf(json)).code]).toEqual([404, 'NOT_FOUND']);
  });
});

describe('GET /docs/errors', () => {
  it('lists every code with what to do, as a page and as JSON [FR-14.93]', async () => {
    const { url } = await serve();
    const html = await (await fetch(`${url}/docs/errors`, { headers: HTML })).text();
    for (const code of PROBLEM_CODES) expect(html).toContain(`href="/docs/errors/${code}"`);
    const { errors } = await bodyOf(await fetch(`${url}/docs/errors`, { headers: JSON_ONLY }));
    expect(errors).toEqual(PROBLEM_CODES.map((code) => ({ code, ...PROBLEMS[code] })));
  });
});

describe('docs/reference/errors.md', () => {
  it('has one row for each problem of the execution API, with its status and what to do [FR-14.93]', () => {
    const text = readFileSync(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8');
    const section = text.split('\n## Problems of the execution API\n')[1]?.split('\n## ')[0] ?? '';
    const rows = section.split('\n').filter((line) => line.startsWith('| `RFA_'));
    expect(rows).toEqual(
      PROBLEM_CODES.map((code) => {
        const { status, title, action } = PROBLEMS[code];
        return `| \`${code}\` | ${status} | ${title} | ${action} |`;
      }),
    );
  });
});
