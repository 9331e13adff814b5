import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Http } from '../door.ts';
import { isProblemCode, PROBLEM_CODES, PROBLEMS, type ProblemCode } from '../execution/problem-codes.ts';

const STYLE = `
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5d6b7c; --line: #d8dee6; --page: #fff; --mark: #0b6bcb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ef; --dim: #97a3b3; --line: #313a46; --page: #12161c; --mark: #6cb2ff; } }
body { margin: 0 auto; max-width: 860px; padding: 32px 20px 80px; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); }
a { color: var(--mark); } code { font: 14px ui-monospace, Menlo, Consolas, monospace; }
h1 { font-size: 24px; margin: 8px 0; } dt { color: var(--dim); margin-top: 14px; } dd { margin: 0; }
table { width: 100%; border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; }
`;

/** The page has one style, and no script. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Serves the address in the `type` of a problem, as HTML for people and as JSON for programs. */
export function installErrorPages(http: Http): void {
  const hidden = { schema: { hide: true }, config: { isProbe: true } } as const;
  http.get('/docs/errors', hidden, async (request, reply) =>
    wantsJson(request) ? { errors: PROBLEM_CODES.map(entryOf) } : sendPage(reply, 'Errors', listOf()),
  );
  http.get<{ Params: { code: string } }>('/docs/errors/:code', hidden, async (request, reply) => {
    const { code } = request.params;
    if (!isProblemCode(code)) return missing(request, reply);
    return wantsJson(request) ? entryOf(code) : sendPage(reply, code, pageOf(code));
  });
}

const entryOf = (code: ProblemCode) => ({ code, ...PROBLEMS[code] });

/** A request that accepts JSON and not HTML gets JSON. Every other request gets the page. */
function wantsJson({ headers: { accept = '' } }: FastifyRequest): boolean {
  return /\bapplication\/(?:problem\+)?json\b/i.test(accept) && !/\btext\/html\b/i.test(accept);
}

function missing(request: FastifyRequest, reply: FastifyReply) {
  const message = 'There is no error of this name. /docs/errors lists them all.';
  reply.code(404);
  if (wantsJson(request)) return { code: 'NOT_FOUND', message, details: [], request_id: request.id };
  return sendPage(reply, 'Not found', '<h1>Not found</h1><p>There is no error of this name.</p>');
}

function pageOf(code: ProblemCode): string {
  const { status, title, action } = PROBLEMS[code];
  return `<h1>${escaped(title)}</h1>
<dl><dt>Code</dt><dd><code>${code}</code></dd>
<dt>HTTP status</dt><dd>${status}</dd>
<dt>What to do</dt><dd>${escaped(action)}</dd></dl>`;
}

function listOf(): string {
  const rows = PROBLEM_CODES.map((code) => {
    const { status, title, action } = PROBLEMS[code];
    const link = `<a href="/docs/errors/${code}"><code>${code}</code></a>`;
    return `<tr><td>${link}</td><td>${status}</td><td>${escaped(title)}</td><td>${escaped(action)}</td></tr>`;
  });
  return `<h1>Errors of the execution API</h1>
<table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th><th>What to do</th></tr></thead>
<tbody>${rows.join('\n')}</tbody></table>`;
}

function sendPage(reply: FastifyReply, title: string, content: string): FastifyReply {
  return reply
    .type('text/html; charset=utf-8')
    .header('content-security-policy', POLICY)
    .send(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · Millrace</title><style>${STYLE}</style></head>
<body><nav><a href="/docs">API</a> · <a href="/docs/errors">Errors</a></nav>
${content}
</body></html>
`);
}

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
]);

const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (character) => ENTITIES.get(character) as string);
