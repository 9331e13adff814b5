/** A server whose routes answer who called, with real keys on a real ledger. */
import { onTestFinished } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import type { Door } from '../../src/http/door.ts';
import type { RateLimiter, Scope } from '../../src/http/shared/identity.ts';
import { KeyAuthenticator, type KeyAuthenticatorOptions } from '../../src/http/shared/key-authenticator.ts';
import { observeStatements, type StatementObserver } from '../../src/ledger/driver/statement.ts';
import { serve } from './server-fixture.ts';

/** `/who/open`, `/who/any`, `/who/<scope>` and `/who/two` tell who called. */
const whoDoor: Door = {
  prefix: '/who',
  tag: 'who',
  description: 'Says who calls.',
  render: ({ code, message, details, quota }, requestId) => ({ code, message, details, quota, request_id: requestId }),
  register(http) {
    const route = (path: string, scopes: readonly Scope[] | undefined) => {
      http.get(`/${path}`, { config: { scopes }, schema: { operationId: path } }, async ({ identity }) => ({
        caller: identity && { ...identity, scopes: [...identity.scopes] },
      }));
    };
    route('open', undefined);
    route('any', []);
    route('two', ['jobs:read', 'jobs:cancel']);
    for (const scope of API_KEY_SCOPES) route(scope.replace(':', '-'), [scope]);
  },
};

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type Answer = { status: number; body: any; headers: Headers };

export type Who = { authenticator: KeyAuthenticator; ask(path: string, authorization?: string): Promise<Answer> };

export async function serveWho(options: KeyAuthenticatorOptions, limiter?: RateLimiter): Promise<Who> {
  const authenticator = new KeyAuthenticator(options);
  onTestFinished(() => authenticator.close());
  const { url } = await serve({ doors: [whoDoor], authenticator, ...(limiter === undefined ? {} : { limiter }) });
  return {
    authenticator,
    async ask(path, authorization) {
      const response = await fetch(`${url}/who/${path}`, {
        headers: authorization === undefined ? {} : { authorization },
      });
      return { status: response.status, body: await response.json(), headers: response.headers };
    },
  };
}

/**
 * The names of the statements that pass the gate, until the test has finished. Without the notes of uses of keys: a server of an earlier
 * test file in this process may write one seconds later.
 */
export function watchStatements(): string[] {
  const names: string[] = [];
  const observer: StatementObserver = ({ name }) => {
    if (name !== 'millrace_touch_api_keys') names.push(name.replace('millrace_', ''));
  };
  observeStatements(observer);
  onTestFinished(() => observeStatements(null));
  return names;
}
