import { checkIngestHealth } from '../../services/ingest/check-health.ts';
import type { Door, Http } from '../door.ts';
import * as auditSchemas from '../shared/audit-schemas.ts';
import { NestedError, nestedError } from '../shared/nested-error.ts';
import { refuseUndeclaredQueries } from '../shared/query-values.ts';
import { answer, shapesIn } from '../shared/shapes.ts';
import { alertRoutes } from './alert-routes.ts';
import * as alertSchemas from './alert-schemas.ts';
import { exportAuditRoute, listAuditRoute, verifyAuditRoute } from './audit-routes.ts';
import { identifyOperator, type OperatorAccess } from './identity.ts';
import { cancelJobRoute, getJobRoute, listJobsRoute, listResourcesRoute, readLogRoute, retryJobRoute } from './job-routes.ts';
import { keyRoutes } from './key-routes.ts';
import { maintenanceRoutes } from './maintenance-routes.ts';
import * as maintenanceSchemas from './maintenance-schemas.ts';
import { changeOrgRoutes, readOrgRoutes } from './org-routes.ts';
import * as orgSchemas from './org-schemas.ts';
import type { OperatorParts } from './parts.ts';
import { projectRoutes } from './project-routes.ts';
import { changeQueueRoute, queueActionRoutes, readQueueRoutes } from './queue-routes.ts';
import * as queueSchemas from './queue-schemas.ts';
import * as schemas from './schemas.ts';
import { OperatorHealth, operatorErrors } from './schemas.ts';
import { hostRoutes, poolRoutes } from './target-routes.ts';
import { typeRoutes, workerRoutes } from './worker-routes.ts';

const WORDS = {
  codes: { QUOTA_EXCEEDED: 'RATE_LIMITED' },
  fields: new Map([
    ['projectId', 'project_id'],
    ['orgId', 'org_id'],
    ['expires', 'expires_in'],
  ]),
} as const;

const ROUTES = [
  listJobsRoute,
  getJobRoute,
  listResourcesRoute,
  readLogRoute,
  retryJobRoute,
  cancelJobRoute,
  hostRoutes,
  poolRoutes,
  readOrgRoutes,
  changeOrgRoutes,
  projectRoutes,
  keyRoutes,
  readQueueRoutes,
  changeQueueRoute,
  queueActionRoutes,
  typeRoutes,
  workerRoutes,
  listAuditRoute,
  exportAuditRoute,
  verifyAuditRoute,
  alertRoutes,
  maintenanceRoutes,
];

const SHAPES = [NestedError, ...shapesIn(schemas, orgSchemas, queueSchemas, auditSchemas, alertSchemas, maintenanceSchemas)];

/** The operators' API. Everything but the health requires the operator token or a key with the scope `operator`. */
export function operatorDoor(given: Omit<OperatorParts, 'config' | 'forgetKey'>, access: OperatorAccess): Door {
  const parts = { ...given, forgetKey: (keyId: string) => access.authenticator.forget?.(keyId) };
  return {
    prefix: '/operators',
    tag: 'operators',
    description:
      'For operators: orgs, queues, workers, maintenance, alerts and the audit trail of the whole platform; ingest jobs with their resources and logs; the hosts and proxies of downloads.',
    register(http) {
      http.decorateRequest('operator', null);
      http.addHook('onRequest', async (request) => {
        if (request.routeOptions.config.isForOperators === true) request.operator = await identifyOperator(access, request);
      });
      refuseUndeclaredQueries(http);
      for (const shape of SHAPES) if (http.getSchema(shape.$id) === undefined) http.addSchema(shape);
      const security: Record<string, string[]>[] = access.token === null ? [] : [{ operator: [] }, { bearer: ['operator'] }];
      const config = { isForOperators: true, security };
      for (const register of ROUTES) register(http, { ...parts, config });
      healthRoute(http, parts);
    },
    render: (error, requestId) => nestedError(error, requestId, WORDS).body,
    respond: (error, request) => nestedError(error, request.id, WORDS),
    errorResponses: operatorErrors,
  };
}

function healthRoute(http: Http, { ingest, streams, downloads }: Omit<OperatorParts, 'config'>): void {
  const schema = {
    operationId: 'getOperatorHealth',
    summary: 'Can manifests be accepted?',
    description: 'Needs no credentials. Unhealthy if the database, the streams or the object storage cannot be used.',
    response: { 200: answer(OperatorHealth, 'Healthy, or degraded.'), 503: answer(OperatorHealth, 'Unhealthy.') },
  };
  http.get('/health', { schema, config: { isProbe: true } }, async (_request, reply) => {
    const health = await checkIngestHealth({ ...ingest, streams, unhealthyPools: () => downloads.unhealthyPools() });
    if (health.status === 'unhealthy') reply.code(503).header('retry-after', 1);
    return reply.send(health);
  });
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route requires an operator. */
    isForOperators?: boolean;
  }
}
