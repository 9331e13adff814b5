import type { Door, Http } from '../door.ts';
import { doorOf } from './errors.ts';

/**
 * Sends "100 Continue" to a client that waits for it, except at doors that return final statuses only. There the client sends
 * the body after its own timeout.
 */
export function installQuietContinue(http: Http, doors: readonly Door[]): void {
  http.server.on('checkContinue', (request, response) => {
    if (doorOf(request.url ?? '', doors)?.isFinalOnly !== true) response.writeContinue();
    http.server.emit('request', request, response);
  });
}
