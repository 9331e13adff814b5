import type { FastifySchemaValidationError } from 'fastify';
import { lookUp } from '../../core/dictionary.ts';
import { type Issue, MAX_ISSUES } from '../../core/errors.ts';
import { suggestion } from '../../core/nearest-name.ts';

/** An error of the validator. The option `verbose` adds `parentSchema`. */
type Violation = FastifySchemaValidationError & { parentSchema?: { properties?: object } };

/** Errors that are translated. Several of them can become one issue. */
const MAX_VIOLATIONS = 5 * MAX_ISSUES;

const CODES: Readonly<Record<string, string>> = {
  required: 'REQUIRED',
  dependentRequired: 'REQUIRED',
  type: 'INVALID_TYPE',
  minimum: 'OUT_OF_RANGE',
  maximum: 'OUT_OF_RANGE',
  exclusiveMinimum: 'OUT_OF_RANGE',
  exclusiveMaximum: 'OUT_OF_RANGE',
  multipleOf: 'OUT_OF_RANGE',
  minItems: 'OUT_OF_RANGE',
  maxItems: 'OUT_OF_RANGE',
  minProperties: 'OUT_OF_RANGE',
  maxProperties: 'OUT_OF_RANGE',
  minLength: 'TOO_SHORT',
  maxLength: 'TOO_LONG',
  additionalProperties: 'UNKNOWN_MEMBER',
  unevaluatedProperties: 'UNKNOWN_MEMBER',
};

/** Translates the first errors of the validator to issues of `core/errors.ts`. */
export function issuesOf(violations: readonly FastifySchemaValidationError[], context: string): Issue[] {
  return withoutAlternatives(violations.slice(0, MAX_VIOLATIONS))
    .slice(0, MAX_ISSUES)
    .map((violation) => issueOf(violation, context));
}

/**
 * When no alternative of a union matches, the validator reports an error for each. This keeps the errors inside an alternative,
 * or replaces all of them by one error about the union.
 */
function withoutAlternatives(violations: readonly Violation[]): Violation[] {
  let kept = [...violations];
  for (const union of violations) {
    if (union.keyword !== 'anyOf' && union.keyword !== 'oneOf') continue;
    const isBelow = (each: Violation) => each.schemaPath.startsWith(`${union.schemaPath}/`);
    const below = kept.filter((each) => isBelow(each) && each.instancePath.startsWith(union.instancePath));
    const hasDeeper = below.some((each) => isDeeper(each, union));
    kept = kept.filter((each) => {
      if (each === union) return !hasDeeper;
      return !below.includes(each) || (hasDeeper && isDeeper(each, union));
    });
    if (!hasDeeper) kept = kept.map((each) => (each === union ? summary(union, below) : each));
  }
  return kept;
}

const isDeeper = (each: Violation, union: Violation): boolean =>
  each.instancePath.length > union.instancePath.length || each.keyword === 'required' || each.keyword === 'additionalProperties';

function summary(union: Violation, below: readonly Violation[]): Violation {
  const words = below.filter((each) => each.keyword === 'const').map((each) => each.params.allowedValue);
  if (words.length > 0) return { ...union, keyword: 'enum', params: { allowedValues: words } };
  const types = below.filter((each) => each.keyword === 'type').map((each) => String(each.params.type));
  if (types.length > 0 && types.length === below.length) return { ...union, keyword: 'type', params: { type: types } };
  return below.find((each) => each.keyword !== 'type') ?? union;
}

function issueOf(violation: Violation, context: string): Issue {
  const { keyword, params } = violation;
  const named = params.missingProperty ?? params.additionalProperty ?? params.unevaluatedProperty;
  const path = dotted(violation.instancePath, typeof named === 'string' ? named : undefined);
  const field = path === '' ? context.replace('querystring', 'query') : path;
  return { field, code: lookUp(CODES, keyword) ?? 'INVALID_VALUE', message: `${field} ${sentence(violation)}` };
}

function sentence({ keyword, params, message, parentSchema }: Violation): string {
  if (keyword === 'required') return 'is required';
  if (keyword === 'type') return `must be ${[params.type].flat().map(withArticle).join(' or ')}`;
  if (keyword === 'enum') return `must be one of ${(params.allowedValues as unknown[]).slice(0, 50).join(', ')}`;
  if (keyword === 'const') return `must be ${JSON.stringify(params.allowedValue)}`;
  if (keyword === 'additionalProperties') {
    return `is not known${suggestion(String(params.additionalProperty), Object.keys(parentSchema?.properties ?? {}))}`;
  }
  return message ?? 'is not valid';
}

function withArticle(type: unknown): string {
  if (type === 'null') return 'null';
  return `${/^[aeiou]/.test(String(type)) ? 'an' : 'a'} ${type}`;
}

/** `/jobs/3/tags/a~1b` as `jobs[3].tags.a/b`. */
function dotted(pointer: string, last: string | undefined): string {
  const parts = pointer.split('/').slice(1).map(unescapePointer);
  if (last !== undefined) parts.push(last);
  const path = parts.reduce((text, part) => {
    if (/^\d+$/.test(part)) return `${text}[${part}]`;
    return text === '' ? part : `${text}.${part}`;
  }, '');
  return path.slice(0, 200);
}

const unescapePointer = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~');
