import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ERRORS, type ErrorCode } from '../../src/core/errors.ts';
import { statusOf } from '../../src/http/shared/errors.ts';
import { bodyOf, serve } from './server-fixture.ts';

const page = readFileSync(new URL('../../docs/reference/http.md', import.meta.url), 'utf8');

describe('docs/reference/http.md', () => {
  it('has every error that a caller can meet under its status, and no other', () => {
    const section = page.split('\n## Errors\n')[1]?.split('\n## ')[0] as string;
    const rows = [...section.matchAll(/^\| +(\d{3}) +\| (.+?) +\|/gm)];
    const documented = rows.flatMap(([, status, codes]) =>
      [...(codes as string).matchAll(/`(\w+)`/g)].map(([, code]) => [code, Number(status)]),
    );
    const codes = (Object.keys(ERRORS) as ErrorCode[]).filter((code) => statusOf(code) !== 500);
    const known = [...codes, 'INTERNAL_ERROR' as const].map((code) => [code, statusOf(code)]);
    expect(documented.sort()).toEqual(known.sort());
  });

  it('names every address outside the doors that the server answers', async () => {
    const { url } = await serve();
    const { paths } = await bodyOf(await fetch(`${url}/openapi.json`));
    const open = Object.keys(paths).filter((path) => !path.startsWith('/test'));
    for (const path of [...open, '/openapi.json', '/docs']) {
      expect(page).toContain(`| \`${path}\``);
      expect((await fetch(`${url}${path}`)).status).not.toBe(404);
    }
  });
});

it('the bare address leads to the API page', async () => {
  const { url } = await serve();
  const answer = await fetch(url);
  expect([answer.status, new URL(answer.url).pathname]).toEqual([200, '/docs']);
});
