import { type definitionOf, ledgerDefinitions, processDefinitions } from '../src/telemetry/catalogue.ts';

const KNOWN = new Map([...ledgerDefinitions(), ...processDefinitions()].map((definition) => [definition.name, definition]));
export type Name = Parameters<typeof definitionOf>[0];

/** The series of a metric, with `_bucket`, `_sum` or `_count` where it is a histogram. */
export function metric(name: Name, selector = ''): string {
  const definition = KNOWN.get(name);
  if (definition === undefined) throw new Error(`There is no metric ${name}.`);
  return `${name}${definition.kind === 'histogram' ? '_bucket' : ''}${selector}`;
}
