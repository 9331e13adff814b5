import type { Door, Http } from '../door.ts';
import { doorOf } from './errors.ts';

/**
 * Doors that answer with final statuses alone never say "100 Continue": the request is taken as it is, and its body comes
 * when the client has waited long enough. Elsewhere the wait is spared.
 */
export function installQuietContinue(http: Http, doors: readonly Door[]): void {
  http.server.on('checkContinue', (request, response) => {
    if (doorOf(request.url ?? '', doors)?.isFinalOnly !== true) response.writeContinue();
    http.server.emit('request', request, response);
  });
}
