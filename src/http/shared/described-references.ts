import { lookUp } from '../../core/dictionary.ts';
import type { Http } from '../door.ts';

type Schemas = Readonly<Record<string, unknown>>;

/**
 * In OpenAPI 3.1 a reference may have a description, which says what the member means in this place. The plugin that writes the document
 * drops it. Returns a function that puts the descriptions of all shared schemas back.
 */
export function describedReferences(http: Http): (written: Schemas) => void {
  const scopes: Pick<Http, 'getSchemas'>[] = [http];
  http.addHook('onRegister', (scope) => {
    scopes.push(scope);
  });
  return (written) => {
    for (const scope of scopes) {
      for (const [id, schema] of Object.entries(scope.getSchemas())) restore(lookUp(written, id), schema);
    }
  };
}

function restore(written: unknown, declared: unknown): void {
  if (!isObject(written) || !isObject(declared)) return;
  if (typeof declared.$ref === 'string' && typeof declared.description === 'string') written.description = declared.description;
  for (const [key, value] of Object.entries(declared)) restore(lookUp(written, key), value);
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
