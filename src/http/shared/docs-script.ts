/** What runs in the browser. Text only ever enters the page as text, never as markup. */
export const DOCS_SCRIPT = String.raw`
'use strict';
(async () => {
  const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
  const byId = (id) => document.getElementById(id);
  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ''));
    return element;
  };
  const answer = await fetch('/openapi.json').catch(() => null);
  if (answer === null || !answer.ok) {
    byId('operations').replaceChildren(make('p', {}, 'The description of the API cannot be loaded. Reload the page to try again.'));
    return;
  }
  const api = await answer.json();
  const resolve = (schema) => {
    const name = schema && schema.$ref && schema.$ref.split('/').pop();
    return name ? { name, ...(api.components.schemas[name] || {}) } : schema || {};
  };

  const typeOf = (given) => {
    const schema = resolve(given);
    const union = schema.anyOf || schema.oneOf;
    if (union && union.every((each) => each.const !== undefined)) return union.map((each) => JSON.stringify(each.const)).join(' | ');
    if (union) return union.map(typeOf).join(' | ');
    if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(' | ');
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.type === 'array') return 'list of ' + typeOf(schema.items || {});
    return schema.name || [].concat(schema.type || 'any').join(' | ');
  };
  const bounds = (given) => {
    const schema = resolve(given);
    const said = [];
    if (schema.minimum !== undefined) said.push('at least ' + schema.minimum);
    if (schema.maximum !== undefined) said.push('at most ' + schema.maximum);
    if (schema.minLength !== undefined) said.push('from ' + schema.minLength + ' characters');
    if (schema.maxLength !== undefined) said.push('up to ' + schema.maxLength + ' characters');
    if (schema.minItems !== undefined) said.push('at least ' + schema.minItems + ' items');
    if (schema.maxItems !== undefined) said.push('at most ' + schema.maxItems + ' items');
    if (schema.format) said.push(schema.format);
    if (schema.default !== undefined) said.push('default ' + JSON.stringify(schema.default));
    return said.join(', ');
  };
  const meaning = (schema, extra) => {
    const text = [extra || resolve(schema).description || '', bounds(schema)].filter(Boolean).join(' — ');
    return make('td', {}, text);
  };

  const objectOf = (given) => {
    const schema = resolve(given);
    if (schema.properties) return schema;
    if (schema.type === 'array') return objectOf(schema.items || {});
    for (const each of schema.anyOf || schema.oneOf || schema.allOf || []) {
      const found = objectOf(each);
      if (found) return found;
    }
    return null;
  };
  const members = (given, seen) => {
    const schema = objectOf(given);
    if (!schema) return make('div', {}, make('code', {}, typeOf(given)));
    const table = make('table', {}, make('tr', {}, make('th', {}, 'member'), make('th', {}, 'type'), make('th', {}, 'meaning')));
    const below = [];
    for (const [name, member] of Object.entries(schema.properties)) {
      const needed = (schema.required || []).includes(name) ? ' *' : '';
      table.append(make('tr', {}, make('td', {}, make('code', {}, name + needed)), make('td', {}, make('code', {}, typeOf(member))), meaning(member)));
      const inner = objectOf(member);
      if (inner && !seen.includes(inner.name || name)) below.push([name, member, inner.name || name]);
    }
    const nested = below.map(([name, member, key]) => {
      const box = make('details', {}, make('summary', {}, make('code', {}, name)));
      box.addEventListener('toggle', () => {
        if (box.open && box.children.length === 1) box.append(make('div', {}, members(member, seen.concat(key))));
      });
      return box;
    });
    return make('div', {}, table, ...nested);
  };

  const example = (given, depth) => {
    const schema = resolve(given);
    if (schema.examples && schema.examples.length) return schema.examples[0];
    if (schema.example !== undefined) return schema.example;
    if (schema.default !== undefined) return schema.default;
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return schema.enum[0];
    const union = schema.anyOf || schema.oneOf || schema.allOf;
    if (union) return example(union[0], depth);
    if (schema.properties && depth < 5) {
      const wanted = (schema.required || []).length ? schema.required : Object.keys(schema.properties).slice(0, 3);
      return Object.fromEntries(wanted.map((name) => [name, example(schema.properties[name], depth + 1)]));
    }
    if (schema.type === 'array') return depth < 5 && schema.items ? [example(schema.items, depth + 1)] : [];
    if (schema.type === 'integer' || schema.type === 'number') return schema.minimum || 1;
    if (schema.type === 'boolean') return true;
    if (schema.type === 'string') return schema.format === 'uuid' ? '3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d' : 'text';
    return {};
  };
  const jsonOf = (body) => body && body.content && body.content['application/json'] && body.content['application/json'].schema;
  const quote = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
  const needsKey = (operation) => (operation.security || []).length > 0;
  const curlOf = (method, path, operation) => {
    const needed = (operation.parameters || []).filter((each) => each.in === 'query' && each.required);
    const query = needed.map((each) => each.name + '=' + encodeURIComponent(example(each.schema, 0))).join('&');
    const lines = ['curl -s ' + (method === 'get' ? '' : '-X ' + method.toUpperCase() + ' ') + quote(location.origin + path + (query ? '?' + query : ''))];
    if (needsKey(operation)) lines.push('-H ' + quote('Authorization: Bearer ' + (byId('key').value || 'YOUR_API_KEY')));
    const schema = jsonOf(operation.requestBody);
    if (schema) lines.push("-H 'Content-Type: application/json'", '-d ' + quote(JSON.stringify(example(schema, 0))));
    return lines.join(' \\\n  ');
  };

  const curlBox = (method, path, operation) => {
    const text = make('pre', {});
    const show = () => { text.textContent = curlOf(method, path, operation); };
    byId('key').addEventListener('input', show);
    show();
    const button = make('button', { type: 'button' }, 'Copy');
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(curlOf(method, path, operation)).catch(() => getSelection().selectAllChildren(text));
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
    return make('div', {}, make('div', { class: 'row' }, make('h4', {}, 'As curl'), button), text);
  };
  const parameterTable = (operation) => {
    const parameters = operation.parameters || [];
    if (parameters.length === 0) return null;
    const rows = parameters.map((each) => make('tr', {}, make('td', {}, make('code', {}, each.name + (each.required ? ' *' : ''))),
      make('td', {}, each.in), make('td', {}, make('code', {}, typeOf(each.schema))), meaning(each.schema, each.description)));
    const head = make('tr', {}, ...['parameter', 'in', 'type', 'meaning'].map((word) => make('th', {}, word)));
    return make('div', {}, make('h4', {}, 'Parameters'), make('table', {}, head, ...rows));
  };
  const bodyPart = (operation) => {
    const schema = jsonOf(operation.requestBody);
    if (!schema) return null;
    return make('div', {}, make('h4', {}, 'Body ', make('code', {}, typeOf(schema))), members(schema, []),
      make('pre', {}, JSON.stringify(example(schema, 0), null, 2)));
  };
  const responsePart = (operation) => {
    const boxes = Object.entries(operation.responses || {}).map(([status, response]) => {
      const schema = jsonOf(response);
      const box = make('details', {}, make('summary', {}, make('code', {}, status), ' ' + (response.description || '')));
      if (schema) box.append(make('div', {}, members(schema, []), make('pre', {}, JSON.stringify(example(schema, 0), null, 2))));
      return box;
    });
    return make('div', {}, make('h4', {}, 'Answers'), ...boxes);
  };
  const articleOf = ({ method, path, operation }) => {
    const scopes = (operation.security || []).flatMap((each) => Object.values(each).flat());
    return make('article', { id: operation.operationId },
      make('h3', {}, operation.summary || operation.operationId),
      make('div', { class: 'path' }, make('span', { class: 'method ' + method }, method.toUpperCase()), ' ' + path),
      make('p', {}, operation.description || ''),
      make('p', { class: 'dim' }, needsKey(operation) ? 'Needs an API key' + (scopes.length ? ' with ' + scopes.join(', ') : '') + '.' : 'Open to everybody.'),
      parameterTable(operation), bodyPart(operation), curlBox(method, path, operation), responsePart(operation));
  };

  const all = Object.entries(api.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ method, path, operation: item[method] })));
  const show = () => {
    const wanted = byId('find').value.trim().toLowerCase();
    const fits = ({ method, path, operation }) => [method, path, operation.summary, operation.operationId].join(' ').toLowerCase().includes(wanted);
    const index = [];
    const content = [];
    for (const tag of api.tags || []) {
      const found = all.filter((each) => (each.operation.tags || []).includes(tag.name) && fits(each));
      if (found.length === 0) continue;
      index.push(make('h2', {}, tag.name), make('ul', {}, ...found.map((each) => make('li', {}, make('a', { href: '#' + each.operation.operationId },
        make('span', { class: 'method ' + each.method }, each.method.toUpperCase()), each.operation.summary || each.operation.operationId)))));
      content.push(make('h2', {}, tag.name), make('p', {}, tag.description || ''), ...found.map(articleOf));
    }
    byId('index').replaceChildren(...index);
    byId('operations').replaceChildren(...(content.length ? content : [make('p', {}, 'No operation matches.')]));
  };
  byId('version').textContent = 'version ' + api.info.version;
  byId('find').addEventListener('input', show);
  show();
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
})();
`;
