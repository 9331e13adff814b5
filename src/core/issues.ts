import { type Issue, invalidRequest, MAX_ISSUES } from './errors.ts';

/** Callers choose the names of members. Longer ones are cut. */
const MAX_FIELD_LENGTH = 200;

/**
 * Collects the first problems of a request, so that one response reports several. A request can contain a hundred thousand, so it
 * ignores the others. Loops over members that a caller sent end when it is full.
 */
export class Issues {
  readonly #list: Issue[] = [];

  get list(): readonly Issue[] {
    return this.#list;
  }

  get isFull(): boolean {
    return this.#list.length >= MAX_ISSUES;
  }

  add(field: string, code: string, message: string): void {
    const shown = field.slice(0, MAX_FIELD_LENGTH);
    this.include({ field: shown, code, message: `${shown} ${message}` });
  }

  include(...issues: readonly Issue[]): void {
    for (const issue of issues) if (!this.isFull) this.#list.push(issue);
  }

  /** Throws INVALID_REQUEST if there is an issue. */
  throwIfAny(): void {
    if (this.list.length > 0) throw invalidRequest(...this.list);
  }
}
