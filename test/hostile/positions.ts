/** Every place in a request where the caller chooses a text that becomes a key, a column, a label or a path. */

export type HostileRequest = { method: string; path: string; headers?: [string, string][]; body?: string };
export type Position = [what: string, request: (name: string) => HostileRequest];

/** An existing job of each door, for requests about one. */
export type Anchors = { queueJob: string; executionJob: string; clientId: string; webhookId: string };

/** Written by hand: a literal with the member `__proto__` would have a prototype in its place. */
const member = (name: string, value: unknown): string => `{${JSON.stringify(name)}:${JSON.stringify(value)}}`;

/** Each byte of UTF-8 by itself, so that halves of surrogate pairs are sent too. */
const encoded = (name: string): string => [...Buffer.from(name)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

const get = (path: string): HostileRequest => ({ method: 'GET', path });
const send = (method: string, path: string, body: string): HostileRequest => ({ method, path, body });
const post = (path: string, body: string): HostileRequest => send('POST', path, body);

function jobWith(given: string): string {
  return `{"type":"plain","payload":{},${given.slice(1)}`;
}

function queuePositions({ queueJob }: Anchors): Position[] {
  const at = '/queue/v1';
  const MEMBERS = ['type', 'queue', 'idempotency_key', 'correlation_id', 'category', 'project_id', 'traceparent'];
  const MORE = ['priority', 'delay', 'scheduled_at', 'callback_url', 'dependency_type', 'timeout', 'org_id'];
  const SEARCHED = ['types', 'states', 'priorities', 'cursor', 'order', 'created_after', 'limit', 'tags'];
  return [
    ...[...MEMBERS, ...MORE].map(
      (each): Position => [`${each} of a job`, (name) => post(`${at}/jobs`, jobWith(`{"${each}":${JSON.stringify(name)}}`))],
    ),
    ['a tag of a job', (name) => post(`${at}/jobs`, jobWith(`{"tags":${member(name, 'x')}}`))],
    ['the value of a tag', (name) => post(`${at}/jobs`, jobWith(`{"tags":${member('x', name)}}`))],
    ['a member of a job', (name) => post(`${at}/jobs`, jobWith(member(name, { polluted: 1 })))],
    ['a member of a payload', (name) => post(`${at}/jobs`, `{"type":"plain","payload":${member(name, { a: 1 })}}`)],
    ['a member of a backoff', (name) => post(`${at}/jobs`, jobWith(`{"backoff":${member(name, 1)}}`))],
    ['the strategy of a backoff', (name) => post(`${at}/jobs`, jobWith(`{"backoff":${member('strategy', name)}}`))],
    ['a unique key', (name) => post(`${at}/jobs`, jobWith(`{"unique":${member('key', name)}}`))],
    ['a member of a unique key', (name) => post(`${at}/jobs`, jobWith(`{"unique":${member(name, 'x')}}`))],
    ['the key of a debounced job', (name) => post(`${at}/jobs`, jobWith(`{"debounce":{"delay":"1h",${member('key', name).slice(1)}}`))],
    ['a dependency', (name) => post(`${at}/jobs`, jobWith(`{"depends_on":[${JSON.stringify(name)}]}`))],
    ['a job of a batch', (name) => post(`${at}/jobs/batch`, `{"jobs":[${jobWith(member(name, 1))}],"atomic":false}`)],
    ['a type in a batch', (name) => post(`${at}/jobs/batch`, `{"jobs":[${jobWith(member('type', name))}]}`)],
    ['a member of a batch', (name) => post(`${at}/jobs/batch`, member(name, []))],
    ['a new type', (name) => send('PATCH', `${at}/jobs/${queueJob}`, member('type', name))],
    ['a new tag', (name) => send('PATCH', `${at}/jobs/${queueJob}`, `{"tags":${member(name, 'x')}}`)],
    ['a member of a change', (name) => send('PATCH', `${at}/jobs/${queueJob}`, member(name, 'x'))],
    ...SEARCHED.flatMap((each): Position[] => [
      [`${each} of a list`, (name) => get(`${at}/jobs?${each}=${encoded(name)}`)],
      [`${each} of a search`, (name) => post(`${at}/jobs/search`, `{"${each}":[${JSON.stringify(name)}]}`)],
    ]),
    ['a tag of a list', (name) => get(`${at}/jobs?tags=${encoded(name)}:x`)],
    ['a tag of a search', (name) => post(`${at}/jobs/search`, `{"tags":${member(name, 'x')}}`)],
    ['a tag value of a search', (name) => post(`${at}/jobs/search`, `{"tags":${member('x', name)}}`)],
    ['the cursor of a search', (name) => post(`${at}/jobs/search`, member('cursor', name))],
    ['a member of a search', (name) => post(`${at}/jobs/search`, member(name, 'x'))],
    ['a parameter of a list', (name) => get(`${at}/jobs?${encoded(name)}=1`)],
    ['a breakdown', (name) => get(`${at}/stats?breakdown_by=${encoded(name)}`)],
    ['a time range', (name) => get(`${at}/stats?time_range=${encoded(name)}`)],
    ['an error code', (name) => post(`${at}/failures/search`, member('error_code', name))],
    ['a type of a failure', (name) => post(`${at}/failures/search`, `{"types":[${JSON.stringify(name)}]}`)],
    ['a category of a failure', (name) => post(`${at}/failures/search`, `{"failure_category":[${JSON.stringify(name)}]}`)],
    ['a page of failures', (name) => post(`${at}/failures/search`, `{"pagination":${member('cursor', name)}}`)],
    ['the reason of a cancellation', (name) => post(`${at}/jobs/${queueJob}/cancel`, member('reason', name))],
    ['ids to cancel', (name) => post(`${at}/jobs/cancel`, `{"job_ids":[${JSON.stringify(name)}]}`)],
    ['the id of a job', (name) => get(`${at}/jobs/${encoded(name)}`)],
    ['the id of a failure', (name) => get(`${at}/jobs/${encoded(name)}/failure`)],
    ['the id of an explanation', (name) => get(`${at}/jobs/${encoded(name)}/explain`)],
    ['the id of a job to retry', (name) => post(`${at}/jobs/${encoded(name)}/retry`, '{}')],
    ['the id of a stream', (name) => get(`${at}/jobs/${encoded(name)}/events`)],
    ['the types of a stream', (name) => get(`${at}/events?types=${encoded(name)}`)],
    ['where a stream resumes', (name) => ({ ...get(`${at}/events`), headers: [['last-event-id', name]] })],
  ];
}

function executionPositions({ executionJob, clientId, webhookId }: Anchors): Position[] {
  const job = (given: string) => `{"type":"EXECUTE","work_kind":"SUCCESS_FAST",${given.slice(1)}`;
  const FILTERS = ['states', 'outcomes', 'types', 'work_kinds', 'created_after', 'ids', 'order', 'limit', 'cursor'];
  return [
    ...['type', 'work_kind', 'idempotency_key', 'callback', 'execution_at'].map(
      (each): Position => [`${each} of an execution`, (name) => post('/v1/jobs', job(member(each, name)))],
    ),
    ['a member of an execution', (name) => post('/v1/jobs', job(member(name, 'x')))],
    ...FILTERS.map((each): Position => [`${each} of executions`, (name) => get(`/v1/jobs?${each}=${encoded(name)}`)]),
    ['a parameter of executions', (name) => get(`/v1/jobs?${encoded(name)}=1`)],
    ['the format of a report', (name) => get(`/v1/reports?format=${encoded(name)}`)],
    ['the id of an execution', (name) => get(`/v1/jobs/${encoded(name)}`)],
    ['the id of a report', (name) => get(`/v1/jobs/${encoded(name)}/report`)],
    ['what is done to an execution', (name) => post(`/v1/jobs/${executionJob}/${encoded(name)}`, '{}')],
    ['a member of a client', (name) => post('/v1/clients', member(name, 'x'))],
    ['the name of a client', (name) => post('/v1/clients', member('name', name))],
    ['the id of a client', (name) => post(`/v1/clients/${encoded(name)}/keys`, '{}')],
    ['a member of a key', (name) => post(`/v1/clients/${clientId}/keys/renew`, member(name, 'x'))],
    ['an event of a webhook', (name) => post('/v1/webhooks', `{"url":"https://public.example/","events":[${JSON.stringify(name)}]}`)],
    ['the description of a webhook', (name) => send('PATCH', `/v1/webhooks/${webhookId}`, member('description', name))],
    ['the events of a webhook', (name) => send('PATCH', `/v1/webhooks/${webhookId}`, `{"events":[${JSON.stringify(name)}]}`)],
    ['the URL of a webhook', (name) => send('PATCH', `/v1/webhooks/${webhookId}`, member('url', `https://public.example/${name}`))],
    ['the host of a webhook', (name) => send('PATCH', `/v1/webhooks/${webhookId}`, member('url', `https://${name}/`))],
    ['a member of a webhook', (name) => send('PATCH', `/v1/webhooks/${webhookId}`, member(name, 'x'))],
    ['the id of a webhook', (name) => get(`/v1/webhooks/${encoded(name)}`)],
    ['the state of deliveries', (name) => get(`/v1/webhooks/${webhookId}/deliveries?state=${encoded(name)}`)],
    ['the cursor of deliveries', (name) => get(`/v1/webhooks/${webhookId}/deliveries?cursor=${encoded(name)}`)],
    ['the id of a delivery', (name) => get(`/v1/webhooks/${webhookId}/deliveries/${encoded(name)}`)],
    [
      'the key of a webhook',
      (name) => ({
        ...post('/v1/webhooks', '{"url":"https://public.example/","events":["*"]}'),
        headers: [['idempotency-key', name]],
      }),
    ],
    ['the key of a client', (name) => ({ ...post('/v1/clients', '{}'), headers: [['idempotency-key', name]] })],
  ];
}

const HEADERS = ['authorization', 'x-request-id', 'idempotency-key', 'traceparent', 'accept', 'content-type', 'content-encoding'];

function sharedPositions(): Position[] {
  return [
    ...HEADERS.flatMap((header) =>
      ['/queue/v1/jobs', '/v1/jobs'].map(
        (path): Position => [`${header} at ${path}`, (name) => ({ ...post(path, jobWith('{"tags":{}}')), headers: [[header, name]] })],
      ),
    ),
    ['the name of a header', (name) => ({ ...get('/v1/jobs'), headers: [[name, 'x']] })],
    ['the host', (name) => ({ ...get('/v1/jobs?cursor=x'), headers: [['host', name]] })],
    ['the page of an error', (name) => get(`/docs/errors/${encoded(name)}`)],
    ['a path', (name) => get(`/${encoded(name)}`)],
    ['a path as it is', (name) => get(`/queue/v1/jobs/${name}`)],
    ['a parameter of the metrics', (name) => get(`/metrics?${encoded(name)}=${encoded(name)}`)],
    ['a method', (name) => ({ ...get('/v1/jobs'), method: name })],
  ];
}

export const positionsOf = (anchors: Anchors): Position[] => [
  ...queuePositions(anchors),
  ...executionPositions(anchors),
  ...sharedPositions(),
];
