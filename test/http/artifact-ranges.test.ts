import { describe, expect, test } from 'vitest';
import { attachmentHeader } from '../../src/http/queue/artifact-headers.ts';
import { sha256Of, useArtifacts } from './artifact-fixture.ts';

const server = useArtifacts();
const TEXT = '0123456789';

describe('a range', () => {
  test.each([
    ['bytes=0-0', '0', 'bytes 0-0/10'],
    ['bytes=2-4', '234', 'bytes 2-4/10'],
    ['bytes=7-', '789', 'bytes 7-9/10'],
    ['bytes=-3', '789', 'bytes 7-9/10'],
    ['bytes=-99', TEXT, 'bytes 0-9/10'],
    ['bytes=8-99', '89', 'bytes 8-9/10'],
    ['bytes=9-99999999999999999999', '9', 'bytes 9-9/10'],
  ])('%s is the part %j', async (range, text, shown) => {
    const { upload, content } = await server.caller();
    const { artifact_id: id } = (await upload(TEXT)).body;
    const response = await content(id, { range });
    expect(response.status).toBe(206);
    expect(await response.text()).toBe(text);
    expect(response.headers.get('content-range')).toBe(shown);
    expect(response.headers.get('content-length')).toBe(String(text.length));
  });

  test.each(['bytes=10-', 'bytes=10-20', 'bytes=-0', 'bytes=99999999999999999999-'])('%s has no byte: 416', async (range) => {
    const { upload, content } = await server.caller();
    const { artifact_id: id } = (await upload(TEXT)).body;
    const response = await content(id, { range });
    expect(response.status).toBe(416);
    expect(response.headers.get('content-range')).toBe('bytes */10');
    expect(((await response.json()) as { code: string }).code).toBe('INVALID_REQUEST');
  });

  test.each(['bytes=4-2', 'bytes=0-1,4-5', 'lines=0-1', 'bytes=', 'bytes=-', 'bytes=a-b', 'bytes=0x1-2'])(
    '%s is ignored',
    async (range) => {
      const { upload, content } = await server.caller();
      const { artifact_id: id } = (await upload(TEXT)).body;
      const response = await content(id, { range });
      expect(response.status).toBe(200);
      expect(await response.text()).toBe(TEXT);
    },
  );

  test('of an empty file has no byte', async () => {
    const { upload, content } = await server.caller();
    const { artifact_id: id } = (await upload('')).body;
    expect((await content(id, { range: 'bytes=0-' })).status).toBe(416);
  });

  test('continues only the same bytes: If-Range', async () => {
    const { upload, content } = await server.caller();
    const { artifact_id: id } = (await upload(TEXT)).body;
    expect((await content(id, { range: 'bytes=5-', 'if-range': `"${sha256Of(TEXT)}"` })).status).toBe(206);
    const changed = await content(id, { range: 'bytes=5-', 'if-range': `"${sha256Of('other')}"` });
    expect(changed.status).toBe(200);
    expect(await changed.text()).toBe(TEXT);
  });
});

test('a client that has the bytes is told so', async () => {
  const { upload, content } = await server.caller();
  const { artifact_id: id } = (await upload(TEXT)).body;
  for (const known of [`"${sha256Of(TEXT)}"`, `W/"${sha256Of(TEXT)}"`, `"x", "${sha256Of(TEXT)}"`, '*']) {
    expect((await content(id, { 'if-none-match': known })).status).toBe(304);
  }
  expect((await content(id, { 'if-none-match': '"x"' })).status).toBe(200);
});

test('HEAD returns the headers and no byte', async () => {
  const { upload, key } = await server.caller();
  const { artifact_id: id } = (await upload(TEXT)).body;
  const response = await fetch(`${server.queue.url}/queue/v1/artifacts/${id}/content`, {
    method: 'HEAD',
    headers: { authorization: `Bearer ${key}` },
  });
  expect(response.status).toBe(200);
  expect(response.headers.get('content-length')).toBe('10');
  expect(response.headers.get('etag')).toBe(`"${sha256Of(TEXT)}"`);
});

describe('a hostile name', () => {
  test.each([
    ['../../etc/passwd', '.._.._etc_passwd'],
    ['__proto__', '__proto__'],
    ['a"; filename="evil.exe', 'a_; filename=_evil.exe'],
    ['..\\..\\win.ini', '.._.._win.ini'],
    ['100%.csv', '100_.csv'],
    ['naïve €.csv', 'na_ve _.csv'],
  ])('%j is stored and served safely', async (name, ascii) => {
    const { upload, content } = await server.caller();
    const { status, body } = await upload('x', { 'x-artifact-name': `UTF-8''${encodeURIComponent(name)}` });
    expect(status).toBe(201);
    expect(body.name).toBe(name);
    const header = (await content(body.artifact_id)).headers.get('content-disposition') as string;
    expect(header).toContain(`filename="${ascii}"`);
    expect(decodeURIComponent(/filename\*=UTF-8''(.*)$/.exec(header)?.[1] as string)).toBe(name.replace(/[/\\]/g, '_'));
    expect(server.files().some((path) => path.includes('passwd') || path.includes('proto'))).toBe(false);
  });

  test.each(['a\0b', 'a\r\nSet-Cookie: x=1', '\u202Egnp.exe', '\ud800'.slice(0, 1), ' ', '', 'x'.repeat(10_000)])(
    '%# is refused',
    async (name) => {
      const { upload, caller } = await server.caller();
      const encoded = name.isWellFormed() ? encodeURIComponent(name) : '%ED%A0%80';
      expect((await upload('x', { 'x-artifact-name': `UTF-8''${encoded}` })).status).toBe(400);
      expect(await server.rows(caller.orgId)).toEqual([]);
    },
  );

  test('is never more than one header', () => {
    for (let code = 0; code < 0x2100; code++) {
      const header = attachmentHeader(`a${String.fromCharCode(code)}b`);
      expect(header).toMatch(/^attachment; filename="[\x20-\x7e]*"; filename\*=UTF-8''[A-Za-z0-9%._~-]*$/);
      expect(header.split('"')).toHaveLength(3);
    }
  });

  test('in plain UTF-8 keeps its letters', async () => {
    const { upload } = await server.caller();
    const latin1 = Buffer.from('naïve.csv', 'utf8').toString('latin1');
    expect((await upload('x', { 'x-artifact-name': latin1 })).body.name).toBe('naïve.csv');
  });
});
