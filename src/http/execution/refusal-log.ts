import { isAppError } from '../../core/errors.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Http } from '../door.ts';
import { orgRefused } from '../shared/identity.ts';

/** One log line and one count for each caller who was turned away, whatever it was that turned them away. */
export function installRefusalLog(http: Http, { metrics }: ExecutionContext): void {
  http.addHook('onError', async (request, _reply, error) => {
    if (!isAppError(error, 'UNAUTHORIZED') && !isAppError(error, 'FORBIDDEN')) return;
    const clientId = request.identity?.orgId ?? orgRefused(error);
    metrics.authFailed(clientId, error.details[0]?.code ?? error.code, request.id);
  });
}
