import { DOCS_SCRIPT } from './docs-script.ts';

const STYLE = `
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5d6b7c; --line: #d8dee6; --page: #fff; --soft: #f4f6f9; --mark: #0b6bcb;
  --get: #0b7a4b; --post: #0b5cad; --patch: #8a5a00; --delete: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ef; --dim: #97a3b3; --line: #313a46; --page: #12161c; --soft: #1a2029;
  --mark: #6cb2ff; --get: #4cc38a; --post: #6cb2ff; --patch: #e2b203; --delete: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); }
a { color: var(--mark); text-decoration: none; } a:hover, a:focus { text-decoration: underline; }
code, pre, .path { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.shell { display: grid; grid-template-columns: 300px minmax(0, 1fr); min-height: 100vh; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 20px 16px; border-right: 1px solid var(--line); background: var(--soft); }
nav h1 { font-size: 18px; margin: 0 0 4px; } nav h2 { font-size: 12px; margin: 20px 0 6px; color: var(--dim); text-transform: uppercase; }
nav ul { list-style: none; margin: 0; padding: 0; } nav li a { display: flex; gap: 8px; padding: 3px 0; color: var(--ink); }
main { padding: 24px 32px 80px; max-width: 960px; }
input { width: 100%; padding: 6px 8px; margin-top: 10px; font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 6px; }
article { padding: 20px 0; border-top: 1px solid var(--line); } article h3 { margin: 0 0 4px; font-size: 17px; }
.path { font-size: 14px; word-break: break-all; } .dim { color: var(--dim); }
.method { font: 700 11px/1.9 ui-monospace, monospace; min-width: 46px; } .get { color: var(--get); } .post { color: var(--post); }
.patch, .put { color: var(--patch); } .delete { color: var(--delete); }
table { width: 100%; border-collapse: collapse; margin: 6px 0 12px; } td, th { text-align: left; vertical-align: top; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); }
th { font-size: 12px; color: var(--dim); font-weight: 600; } td:first-child { white-space: nowrap; }
pre { margin: 6px 0 12px; padding: 10px 12px; overflow: auto; background: var(--soft); border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap; word-break: break-word; }
details { margin: 4px 0; } summary { cursor: pointer; } details > div { padding-left: 16px; border-left: 2px solid var(--line); margin-left: 4px; }
button { font: inherit; font-size: 13px; padding: 2px 10px; cursor: pointer; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 6px; }
h4 { margin: 14px 0 4px; font-size: 13px; color: var(--dim); } .row { display: flex; justify-content: space-between; align-items: end; }
@media (max-width: 760px) { .shell { grid-template-columns: 1fr; } nav { position: static; height: auto; border-right: 0; } main { padding: 16px; } }
`;

/** The API page: everything it needs is in it, and what it shows comes from /openapi.json of the same server. */
export const DOCS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Millrace API</title>
<style>${STYLE}</style>
</head>
<body>
<div class="shell">
<nav aria-label="Operations">
<h1>Millrace API</h1>
<div class="dim" id="version"></div>
<a href="/openapi.json">openapi.json</a>
<input id="key" type="password" placeholder="API key, for the curl lines" aria-label="API key" autocomplete="off">
<input id="find" type="search" placeholder="Find an operation" aria-label="Find an operation">
<div id="index"></div>
</nav>
<main id="operations"><p class="dim">Loading the description of the API.</p></main>
</div>
<noscript>This page needs JavaScript. The same description is at <a href="/openapi.json">/openapi.json</a>.</noscript>
<script>${DOCS_SCRIPT}</script>
</body>
</html>
`;
