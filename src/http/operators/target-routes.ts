import { Type } from 'typebox';
import { AppError, invalidRequest } from '../../core/errors.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent } from '../shared/route-options.ts';
import { answer } from '../shared/shapes.ts';
import { operatorAsking, requireEveryOrg } from './identity.ts';
import type { OperatorParts } from './parts.ts';
import { HostPage, PAGE, Paused, PoolPage, Reason } from './schemas.ts';

const WHAT = 'Hosts and proxy pools';

const timeOrNull = (date: Date | null): string | null => (date === null ? null : formatTimestamp(date));

export function hostRoutes(http: Http, { downloads, config }: OperatorParts): void {
  const list = {
    operationId: 'listDownloadHosts',
    summary: 'List the hosts of downloads',
    querystring: Type.Object(PAGE, { additionalProperties: false }),
    response: { 200: answer(HostPage, 'A page of hosts.') },
  };
  http.get('/hosts', { schema: list, config }, async (request) => {
    requireEveryOrg(request, WHAT);
    const { cursor, limit } = request.query;
    const { items, nextCursor } = await downloads.hosts({ cursor: cursor ?? null, limit });
    return {
      items: items.map(({ backoffUntil, ...host }) => ({ ...host, backoff_until: timeOrNull(backoffUntil) })),
      next_cursor: nextCursor,
    };
  });
  const Host = Type.Object({ host: Type.String({ description: 'The name of the host, with its port unless that is the default.' }) });
  for (const [verb, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    const schema = {
      operationId: `${verb}DownloadHost`,
      summary: paused ? 'Start no request to a host' : 'Start requests to a host again',
      params: Host,
      body: Reason,
      response: { 200: answer(Paused, 'The host.') },
    };
    http.post(`/hosts/:host/${verb}`, { schema, config, ...bodyMayBeAbsent }, async (request) => {
      requireEveryOrg(request, WHAT);
      const { host } = request.params;
      await downloads.pauseHost(requireHost(host), paused, operatorAsking(request, request.body.reason));
      return { name: host, paused };
    });
  }
}

export function poolRoutes(http: Http, { downloads, config }: OperatorParts): void {
  const list = { operationId: 'listProxyPools', summary: 'List the proxy pools', response: { 200: answer(PoolPage, 'The pools.') } };
  http.get('/proxies', { schema: list, config }, async (request) => {
    requireEveryOrg(request, WHAT);
    const pools = await downloads.pools();
    return {
      items: pools.map(({ name, healthy, paused, addresses }) => ({
        pool: name,
        healthy,
        paused,
        addresses: addresses.map(({ ejectedUntil, ...each }) => ({ ...each, ejected_until: timeOrNull(ejectedUntil) })),
      })),
      next_cursor: null,
    };
  });
  const Pool = Type.Object({ pool: Type.String({ description: 'The name of the pool, percent-encoded.' }) });
  for (const [verb, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    const schema = {
      operationId: `${verb}ProxyPool`,
      summary: paused ? 'Pass over a proxy pool' : 'Use a proxy pool again',
      params: Pool,
      body: Reason,
      response: { 200: answer(Paused, 'The pool.') },
    };
    http.post(`/proxies/:pool/${verb}`, { schema, config, ...bodyMayBeAbsent }, async (request) => {
      requireEveryOrg(request, WHAT);
      const { pool } = request.params;
      if (!(await downloads.pausePool(pool, paused, operatorAsking(request, request.body.reason))))
        throw new AppError('NOT_FOUND', { message: `There is no proxy pool "${pool.slice(0, 200)}". See GET /operators/proxies.` });
      return { name: pool, paused };
    });
  }
}

/** A host may be paused before the first download from it. */
function requireHost(host: string): string {
  if (host.length <= 300 && URL.canParse(`http://${host}`) && new URL(`http://${host}`).host.length > 0 && !/[/?#@\s]/.test(host))
    return host.toLowerCase();
  throw invalidRequest({
    field: 'host',
    code: 'INVALID_VALUE',
    message: 'host must be a host name such as cdn.example.com or 127.0.0.1:9000',
  });
}
