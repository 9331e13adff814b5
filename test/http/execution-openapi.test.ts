import { describe, expect, it } from 'vitest';
import { clientTypes, type OpenApiDocument } from '../../scripts/client-types.ts';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { PROBLEM_CODES } from '../../src/http/execution/problem-codes.ts';
import type { Operation } from './contract.ts';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();

/** The operations of the door without those of webhooks, by name. */
function operations(): Map<string, Operation & { address: string }> {
  const own = server.contract.operations.filter(({ path }) => path.startsWith('/v1/') && !path.includes('webhook'));
  return new Map(own.map(({ method, path, operation }) => [operation.operationId, { ...operation, address: `${method} ${path}` }]));
}

const statusesOf = ({ responses }: Operation): number[] => Object.keys(responses).map(Number);

/** Where each is, the scopes of the key it needs (null: none), and the errors that the contract declares for it. */
const TABLE: Record<string, [address: string, scope: string | null, declared: number[]]> = {
  createClient: ['POST /v1/clients', null, [500, 503]],
  issueKey: ['POST /v1/clients/{client_id}/keys', 'jobs:write', [400, 401, 403, 404, 409, 500, 503]],
  renewKey: ['POST /v1/clients/{client_id}/keys/renew', 'jobs:write', [400, 401, 403, 404, 409, 500, 503]],
  revokeKey: ['POST /v1/clients/{client_id}/keys/revoke', 'jobs:write', [400, 401, 403, 404, 409, 500, 503]],
  getClient: ['GET /v1/clients/me', 'jobs:read', [401, 403, 500, 503]],
  submitExecution: ['POST /v1/jobs', 'jobs:write', [400, 401, 403, 409, 429, 500, 503]],
  listExecutions: ['GET /v1/jobs', 'jobs:read', [400, 401, 403, 500, 503]],
  getExecution: ['GET /v1/jobs/{job_id}', 'jobs:read', [401, 403, 404, 500, 503]],
  getExecutionReport: ['GET /v1/jobs/{job_id}/report', 'jobs:read', [401, 403, 404, 500, 503]],
  cancelExecution: ['POST /v1/jobs/{job_id}/cancel', 'jobs:cancel', [400, 401, 403, 404, 409, 500, 503]],
  retryExecution: ['POST /v1/jobs/{job_id}/retry', 'jobs:write', [400, 401, 403, 404, 409, 500, 503]],
  listExecutionReports: ['GET /v1/reports', 'jobs:read', [400, 401, 403, 500, 503]],
  getExecutionHealth: ['GET /v1/health', null, [500, 503, 504]],
};

describe('the document of the execution API', () => {
  it('names every operation with its address, and no other [FR-08.01]', () => {
    const documented = [...operations()].map(([id, { address }]) => [id, address]);
    expect(documented.sort()).toEqual(
      Object.entries(TABLE)
        .map(([id, [address]]) => [id, address])
        .sort(),
    );
  });

  it.each(Object.entries(TABLE))('%s needs the key it should and declares its errors [FR-08.03]', (id, [, scope, declared]) => {
    const operation = operations().get(id) as Operation;
    expect(operation).toMatchObject({ tags: ['execution'], summary: expect.any(String) });
    const scopes = operation.security.flatMap(({ bearer = [] }) => bearer);
    expect(scopes).toEqual(scope === null ? [] : [scope]);
    expect(API_KEY_SCOPES).toEqual(expect.arrayContaining(scopes));
    expect(statusesOf(operation)).toEqual(expect.arrayContaining(declared));
    // Whoever cannot be refused for a key is told of no such refusal.
    if (id === 'getExecutionHealth') expect(statusesOf(operation)).not.toContain(401);
  });

  it('gives every error as problem details [FR-14.100] [FR-14.106]', () => {
    for (const [id, { responses }] of operations()) {
      for (const [status, { content }] of Object.entries(responses)) {
        if (Number(status) < 400) continue;
        expect([id, status, content]).toEqual([
          ...[id, status],
          { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
        ]);
      }
    }
    const { Problem } = server.contract.document.components.schemas as Record<string, ProblemSchema>;
    expect(Problem?.required).toEqual(['type', 'title', 'status', 'detail', 'instance', 'code']);
    expect(Problem?.properties.code?.enum).toEqual([...PROBLEM_CODES]);
  });

  it('takes JSON and gives JSON, and reports in two more forms [FR-08.02]', () => {
    for (const [id, { requestBody, responses }] of operations()) {
      if (requestBody !== undefined) expect([id, Object.keys(requestBody.content)]).toEqual([id, ['application/json']]);
      const types = Object.entries(responses)
        .filter(([status]) => Number(status) < 300)
        .flatMap(([, { content }]) => Object.keys(content ?? {}));
      const more = id === 'listExecutionReports' ? ['application/x-ndjson', 'text/csv'] : [];
      expect([id, [...new Set(types)]]).toEqual([id, ['application/json', ...more]]);
    }
  });

  it('has examples that its own shapes allow', () => {
    expect(server.contract.checkExamples()).toBeGreaterThan(5);
  });

  it('shares the names of operations with no other door, and leaves the types of the queue client alone', () => {
    const ids = server.contract.operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const types = clientTypes(server.contract.document as unknown as OpenApiDocument, 'queue');
    expect(types).toContain('export type JobStatus =');
    expect(types).not.toMatch(/export type (?:Execution\w+|Problem\w*) =/);
  });
});

type ProblemSchema = { required: string[]; properties: Record<string, { enum?: string[] }> };
