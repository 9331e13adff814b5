import type { Issue } from '../core/errors.ts';
import { invalidConfig } from './assemble.ts';
import { type Config, isLoopback } from './load-config.ts';

/**
 * Everyone who can reach the server can register, submit downloads or act as an operator if the settings say so. On an address that others
 * can reach, the operator must allow that. Only processes that serve HTTP check it, so that workers and commands can share the file.
 */
export function checkOpenAccess(config: Config): void {
  if (isLoopback(config.server.host)) return;
  const issues = [openRegistration(config), openIngest(config), openOperators(config)].filter((issue) => issue !== null);
  if (issues.length > 0) throw invalidConfig(issues);
}

function openRegistration({ server, auth, execution }: Config): Issue | null {
  if (execution.registration !== 'open' || auth.allowsOpen) return null;
  const field = 'auth.registration';
  const message =
    `${field} is "open" and the server would listen on ${server.host}. ` +
    'Everyone who reaches that address could create clients and run jobs. ' +
    'Set auth.registration = "token" and auth.bootstrap_token, or listen on 127.0.0.1. ' +
    'If everyone may register, set auth.allow_open = true (MILLRACE_AUTH_ALLOW_OPEN=true)';
  return { field, code: 'OPEN_REGISTRATION', message };
}

function openIngest({ server, ingest }: Config): Issue | null {
  if (ingest.settings.auth !== 'none' || ingest.allowsOpen) return null;
  const field = 'ingest.auth';
  const message =
    `${field} is "none" and the server would listen on ${server.host}. ` +
    'Everyone who reaches that address could submit downloads to /jobs. ' +
    'Set ingest.auth = "key" (MILLRACE_INGEST_AUTH=key), or listen on 127.0.0.1. ' +
    'If everyone may submit, set ingest.allow_open = true (MILLRACE_INGEST_ALLOW_OPEN=true)';
  return { field, code: 'OPEN_INGEST', message };
}

function openOperators({ server, operators }: Config): Issue | null {
  if (operators.auth !== 'none') return null;
  const field = 'operators.auth';
  const message =
    `${field} is "none" and the server would listen on ${server.host}. ` +
    'Everyone who reaches that address could read and cancel the jobs of every org. ' +
    'Remove operators.auth, or listen on 127.0.0.1';
  return { field, code: 'OPEN_OPERATORS', message };
}
