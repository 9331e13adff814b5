import { expect, it } from 'vitest';
import { openOptionsOf } from '../../src/cli/connection.ts';
import { loadConfig } from '../../src/config/load-config.ts';

it('what the configuration says of heartbeats and revoked keys holds where the library works, too', () => {
  const environment = { MILLRACE_RETENTION_REVOKED_KEYS: '400d', MILLRACE_EXECUTION_HEARTBEAT: '2s' };
  const { config } = loadConfig({ environment, folder: '/' });
  expect(openOptionsOf(config)).toMatchObject({ heartbeat: '2s', keepRevokedKeys: '400d' });
});
