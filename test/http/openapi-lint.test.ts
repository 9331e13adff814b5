import { BaseResolver, createConfig, lintFromString } from '@redocly/openapi-core';
import { expect, it } from 'vitest';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();

it('the document of the whole API passes the recommended rules of Redocly without an error', async () => {
  const source = await (await fetch(`${server.url}/openapi.json`)).text();
  const config = await createConfig({ extends: ['recommended'] });
  // The document refers to nothing outside itself, so the resolver has nothing to fetch.
  const problems = await lintFromString({ source, config, externalRefResolver: new BaseResolver() });
  const told = problems.map(({ severity, ruleId, message, location }) => ({
    severity,
    ruleId,
    message,
    at: location[0]?.pointer,
  }));
  expect(told.filter(({ severity }) => severity === 'error')).toEqual([]);
});
