import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';

/** A scope inside an org. */
export type Project = { readonly id: string; readonly name: string; readonly createdAt: Date };

const CREATE = statement(
  'create_project',
  `INSERT INTO millrace.projects (org_id, id, name, created_at) VALUES ($1::uuid, $2::uuid, $3, millrace.clock())
   ON CONFLICT DO NOTHING RETURNING id, name, created_at AS "createdAt"`,
);

const RENAME = statement(
  'rename_project',
  `UPDATE millrace.projects p SET name = $3 WHERE p.org_id = $1::uuid AND p.id = $2::uuid
     AND NOT EXISTS (SELECT FROM millrace.projects o WHERE o.org_id = $1::uuid AND o.name = $3 AND o.id <> p.id)
   RETURNING id, name, created_at AS "createdAt"`,
);

const FIND = statement(
  'find_project',
  'SELECT id, name, created_at AS "createdAt" FROM millrace.projects WHERE org_id = $1::uuid AND id = $2::uuid',
);

type ListParams = { orgId: string; after: string; limit: number };

const LIST = namedStatement<ListParams, Project>(
  'list_projects',
  `SELECT id, name, created_at AS "createdAt" FROM millrace.projects
   WHERE org_id = $orgId::uuid AND name > $after ORDER BY name LIMIT $limit::int4`,
);

/** Returns null if the org has a project with this id or name. */
export async function createProject(db: Queryable, orgId: string, { id, name }: { id: string; name: string }): Promise<Project | null> {
  return (await run<Project>(db, CREATE, [orgId, id, name]))[0] ?? null;
}

/** Returns null if the org has no such project, or another one has the name. */
export async function renameProject(db: Queryable, orgId: string, { id, name }: { id: string; name: string }): Promise<Project | null> {
  return (await run<Project>(db, RENAME, [orgId, id, name]))[0] ?? null;
}

export async function findProject(db: Queryable, orgId: string, id: string): Promise<Project | null> {
  return (await run<Project>(db, FIND, [orgId, id]))[0] ?? null;
}

/** In the order of their names, after this one. */
export async function listProjects(db: Queryable, params: ListParams): Promise<Project[]> {
  return runNamed(db, LIST, params);
}

const MOST_KNOWN = 100_000;

/** The projects that this process knows to exist. A project is removed only together with its org. */
export class ProjectCache {
  readonly #db: Queryable;
  readonly #known = new Set<string>();
  readonly #looking = new Map<string, Promise<boolean>>();

  constructor(db: Queryable) {
    this.#db = db;
  }

  knows(orgId: string, id: string): boolean {
    return this.#known.has(`${orgId} ${id}`);
  }

  /** Whether the org has the project. Callers that ask at the same time share a statement. */
  has(orgId: string, id: string): Promise<boolean> {
    const name = `${orgId} ${id}`;
    const looking = this.#looking.get(name) ?? this.#look(orgId, id);
    this.#looking.set(name, looking);
    return looking;
  }

  async #look(orgId: string, id: string): Promise<boolean> {
    const name = `${orgId} ${id}`;
    try {
      const found = (await findProject(this.#db, orgId, id)) !== null;
      if (this.#known.size >= MOST_KNOWN) this.#known.clear();
      if (found) this.#known.add(name);
      return found;
    } finally {
      this.#looking.delete(name);
    }
  }
}
