import { describe, expect, it } from 'vitest';
import type { Door, Http } from '../../src/http/door.ts';
import { until } from '../until.ts';
import { Page } from './docs-browser.ts';
import { useExecution } from './execution-fixture.ts';
import { queueDoor } from './queue-door.ts';
import { serve } from './server-fixture.ts';

const ATTACK = [
  '<script>document.title="attacked"</script>',
  '<img src=/x onerror="document.title=\'attacked\'">',
  '<iframe src="https://example.com"></iframe>',
  '[link](javascript:document.title="attacked")',
].join(' ');

/** A door whose every text is an attack on the page that shows it. */
const hostileDoor: Door = {
  prefix: '/hostile',
  tag: `hostile ${ATTACK}`,
  description: ATTACK,
  render: () => ({}),
  register(http: Http) {
    const schema = { operationId: 'hostile', summary: ATTACK, description: ATTACK };
    http.get('/attack', { schema }, async () => ({}));
  },
};

const directivesOf = (answer: Response): string[] => (answer.headers.get('content-security-policy') ?? '').split('; ').sort();

describe('GET /docs', () => {
  it('loads scripts and styles from this server alone', async () => {
    const { url } = await serve();
    const answer = await fetch(`${url}/docs`);
    expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const html = await answer.text();
    expect(html).not.toMatch(/https?:/);
    const files = [...html.matchAll(/(?:src|href)="(\/docs\/[^"]+)"/g)].map(([, path]) => path as string);
    expect(files).toEqual(['/docs/swagger-ui.css', '/docs/page.css', '/docs/swagger-ui-bundle.js', '/docs/start.js']);
    const types = await Promise.all(files.map(async (path) => (await fetch(`${url}${path}`)).headers.get('content-type')));
    expect(types).toEqual([
      'text/css; charset=utf-8',
      'text/css; charset=utf-8',
      'text/javascript; charset=utf-8',
      'text/javascript; charset=utf-8',
    ]);
  });

  it('forbids inline scripts and connections to other hosts', async () => {
    const { url } = await serve();
    const answer = await fetch(`${url}/docs`);
    expect(directivesOf(answer)).toEqual([
      "base-uri 'none'",
      "connect-src 'self'",
      "default-src 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
      "img-src 'self' data:",
      "script-src 'self'",
      "style-src 'self'",
    ]);
    expect(await answer.text()).not.toMatch(/<script(?![^>]* src=)|<[^>]+ on\w+=|<style|javascript:/);
  });

  it('needs no inline style, so that its policy allows none', async () => {
    const { url } = await serve({ doors: [queueDoor] });
    const page = await Page.load(url);
    expect(page.all('style')).toEqual([]);
    expect(page.inlineStyles).toEqual([]);
  });

  it('shows texts of the OpenAPI document as text, never as script', async () => {
    const { url } = await serve({ doors: [queueDoor, hostileDoor] });
    const page = await Page.load(url);
    await until('the page shows the text', () => page.text.includes('/hostile/attack'));
    expect(page.text).toContain('<script>');
    expect(page.title).toBe('Millrace API');
    const scripts = page.all('script').map((script) => script.getAttribute('src'));
    expect(scripts).toEqual(['/docs/swagger-ui-bundle.js', '/docs/start.js']);
    const attributes = page.all('*').flatMap((element) => [...element.attributes]);
    expect(attributes.filter(({ name }) => name.startsWith('on'))).toEqual([]);
    expect(attributes.filter(({ name, value }) => name === 'href' && value.startsWith('javascript:'))).toEqual([]);
    expect(page.all('iframe, object, embed')).toEqual([]);
  });
});

describe('the page of the whole server', () => {
  const server = useExecution();

  it('shows every operation of both APIs', async () => {
    const page = await Page.load(server.url);
    const shown = () => new Set(page.all('.opblock-summary-path').map((path) => path.getAttribute('data-path')));
    const paths = server.contract.operations.map(({ path }) => path);
    expect(paths.some((path) => path.startsWith('/v1/'))).toBe(true);
    expect(paths.some((path) => path.startsWith('/queue/v1/'))).toBe(true);
    const operations = () => [...shown()].filter((path) => path?.startsWith('/')).sort();
    await until('the page shows all of them', operations, [...new Set(paths)].sort());
  });
});
