import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyReply } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Http } from '../door.ts';

/** The build puts compressed copies of Swagger UI here. A clone has the originals among its development dependencies. */
const BUILT = new URL('./swagger-ui/', import.meta.url);
const INSTALLED = new URL('../../../node_modules/swagger-ui-dist/', import.meta.url);

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Millrace API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/page.css">
<script src="/docs/swagger-ui-bundle.js" defer></script>
<script src="/docs/start.js" defer></script>
</head>
<body>
<div id="api"><p>The page is loading. The same description is at <a href="/openapi.json">/openapi.json</a>.</p></div>
</body>
</html>
`;

const START = `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#api',
  deepLinking: true,
  filter: true,
  defaultModelExpandDepth: 2,
  tryItOutEnabled: true,
  validatorUrl: null,
});
`;

/** Swagger UI is laid out for wide screens. On a phone, each cell of its tables gets a row, and controls are large enough to touch. */
const STYLE = `.swagger-ui .response-col_links { display: none; }
.swagger-ui .json-schema-2020-12-expand-deep-button { color: #505a6b; }
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 12px; }
  .swagger-ui .info { margin: 24px 0; }
  .swagger-ui .opblock-summary-path { max-width: none; }
  .swagger-ui .opblock-tag { flex-wrap: wrap; }
  .swagger-ui .filter .operation-filter-input { width: 100%; max-width: none; box-sizing: border-box; }
  .swagger-ui table, .swagger-ui tbody, .swagger-ui tr, .swagger-ui td { display: block; width: auto; max-width: 100%; }
  .swagger-ui table thead { display: none; }
  .swagger-ui table tbody tr td:has(.model-box) { max-width: 100%; }
  .swagger-ui table.parameters > tbody > tr > td, .swagger-ui table.responses-table > tbody > tr > td { min-width: 0; padding: 4px 0; }
  .swagger-ui .response-col_status { font-weight: bold; }
  .swagger-ui .json-schema-2020-12-keyword--description { font-size: 14px; }
  .swagger-ui input, .swagger-ui select, .swagger-ui textarea { font-size: 16px; max-width: 100%; box-sizing: border-box; }
  .swagger-ui input, .swagger-ui select, .swagger-ui .btn, .swagger-ui .tab button, .swagger-ui .opblock-summary-control { min-height: 40px; }
  .swagger-ui .scheme-container .schemes { flex-wrap: wrap; gap: 12px; }
  .swagger-ui .dialog-ux .modal-ux { width: 92vw; min-width: 0; max-width: 92vw; }
}
`;

/** The page takes scripts and styles from this server alone, none of them inline, and connects to this server alone. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const JAVASCRIPT = 'text/javascript; charset=utf-8';
const CSS = 'text/css; charset=utf-8';
const HIDDEN = { schema: { hide: true } } as const;

/** Serves Swagger UI with the OpenAPI document of this server. The browser needs no other host. */
export function installApiPage(http: Http): void {
  http.get('/', HIDDEN, async (_request, reply) => reply.redirect('/docs'));
  http.get('/docs', HIDDEN, async (_request, reply) =>
    send(reply, 'text/html; charset=utf-8').header('content-security-policy', POLICY).send(PAGE),
  );
  http.get('/docs/page.css', HIDDEN, async (_request, reply) => send(reply, CSS).send(STYLE));
  http.get('/docs/start.js', HIDDEN, async (_request, reply) => send(reply, JAVASCRIPT).send(START));
  serveFile(http, 'swagger-ui-bundle.js', JAVASCRIPT);
  serveFile(http, 'swagger-ui.css', CSS);
}

const send = (reply: FastifyReply, type: string): FastifyReply => reply.type(type).header('cache-control', 'no-cache');

/** The server reads the file on the first request and keeps its compressed bytes. */
function serveFile(http: Http, name: string, type: string): void {
  let bytes: Buffer | null = null;
  http.get(`/docs/${name}`, HIDDEN, async (_request, reply) => {
    bytes ??= await compressed(name);
    return send(reply, type).header('cache-control', 'max-age=3600').header('content-encoding', 'gzip').send(bytes);
  });
}

async function compressed(name: string): Promise<Buffer> {
  try {
    return await readFile(new URL(`${name}.gz`, BUILT)).catch(async () => promisify(gzip)(await readFile(new URL(name, INSTALLED))));
  } catch (cause) {
    const message = 'The files of the API page are not installed. Install the development dependencies with npm ci.';
    throw new AppError('NOT_FOUND', { message, cause });
  }
}
