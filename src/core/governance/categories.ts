/** What a governed job may be for. */
export const CATEGORY_NAMES = ['notification', 'audit_enrichment', 'planning', 'import_export', 'maintenance'] as const;

/** The name of a category of governed jobs. */
export type CategoryName = (typeof CATEGORY_NAMES)[number];

export const isCategoryName = (value: unknown): value is CategoryName => (CATEGORY_NAMES as readonly unknown[]).includes(value);

/** What a handler may do through its context, in addition to what every handler may do. `jobs`: it may spawn jobs. */
export const CAPABILITIES = ['audit', 'artifacts', 'assignments', 'jobs'] as const;

export type Capability = (typeof CAPABILITIES)[number];

const OF_CATEGORY: ReadonlyMap<string, readonly Capability[]> = new Map<CategoryName, readonly Capability[]>([
  ['notification', ['audit', 'jobs']],
  ['audit_enrichment', ['audit']],
  ['planning', ['audit', 'artifacts', 'assignments', 'jobs']],
  ['import_export', ['audit', 'artifacts', 'jobs']],
  ['maintenance', ['audit', 'jobs']],
]);

const WITHOUT_CATEGORY: readonly Capability[] = ['audit', 'artifacts', 'jobs'];

/** A job without one of the five categories may use the audit trail and artifacts. Assignments also need a command and a grant. */
export const capabilitiesOf = (category: string | null): readonly Capability[] =>
  (category === null ? undefined : OF_CATEGORY.get(category)) ?? WITHOUT_CATEGORY;
