import { requireOrg } from '../../services/access/create-org.ts';
import { createProject, listProjects, renameProject } from '../../services/access/projects.ts';
import { AT_CONSOLE } from '../../services/access/requesters.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withLedger } from '../connection.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const ORG = { org: { type: 'string', value: 'SLUG', help: 'the org of the project' } } as const;

const CREATE_OPTIONS = {
  ...ORG,
  id: { type: 'string', value: 'UUID', help: 'the id of the project; default: a new one' },
  reason: { type: 'string', value: 'TEXT', help: 'the reason, for the audit trail' },
} as const;

export const projectsCreate = defineCommand({
  name: 'projects create',
  summary: 'create a project of an org, which jobs and keys may be bound to',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: CREATE_OPTIONS,
  examples: ['millrace projects create billing --org acme', 'millrace projects create billing --org acme --json'],
  async run(invocation: Invocation<typeof CREATE_OPTIONS>) {
    const { values, args, out } = invocation;
    const slug = orgOf(values, 'projects create');
    const project = await withLedger(invocation, async (database) => {
      const { id: orgId } = await requireOrg(database, { slug });
      const requester = { ...AT_CONSOLE, reason: values.reason ?? null };
      return createProject(database, { orgId, name: args[0] as string, ...(values.id === undefined ? {} : { id: values.id }), requester });
    });
    out.answer(project, () => [
      `Project ${project.name} of the org ${slug} has the id ${project.id}.`,
      `Next: millrace keys create --org ${slug} --project ${project.id}`,
    ]);
    return EXIT.ok;
  },
});

const PAGE = 1_000;

export const projectsList = defineCommand({
  name: 'projects list',
  summary: 'show the projects of an org',
  options: ORG,
  examples: ['millrace projects list --org acme', 'millrace projects list --org acme --json'],
  async run(invocation: Invocation<typeof ORG>) {
    const slug = orgOf(invocation.values, 'projects list');
    const projects = await withLedger(invocation, async (database) => {
      const { id: orgId } = await requireOrg(database, { slug });
      const all = [];
      let cursor: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof listProjects>> = await listProjects(database, orgId, { cursor, limit: PAGE });
        all.push(...page.items);
        cursor = page.nextCursor;
      } while (cursor !== null);
      return all;
    });
    const rows = projects.map(({ name, id, createdAt }) => [name, id, createdAt.toISOString()]);
    invocation.out.answer({ projects }, () =>
      rows.length === 0 ? [`Org ${slug} has no projects.`] : textTable(['project', 'id', 'created'], rows),
    );
    return EXIT.ok;
  },
});

export const projectsRename = defineCommand({
  name: 'projects rename',
  summary: 'give a project another name; its id stays',
  takes: 'ID NEW_NAME',
  minArgs: 2,
  maxArgs: 2,
  options: ORG,
  examples: ['millrace projects rename 3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11 invoices --org acme'],
  async run(invocation: Invocation<typeof ORG>) {
    const slug = orgOf(invocation.values, 'projects rename');
    const [id, name] = invocation.args as [string, string];
    const project = await withLedger(invocation, async (database) => {
      const { id: orgId } = await requireOrg(database, { slug });
      return renameProject(database, { orgId, id, name, requester: AT_CONSOLE });
    });
    invocation.out.answer(project, () => [`Project ${project.id} of the org ${slug} is now called ${project.name}.`]);
    return EXIT.ok;
  },
});

function orgOf({ org }: { readonly org?: string }, command: string): string {
  if (org === undefined) throw new UsageError(`"millrace ${command}" needs --org SLUG.`, command);
  return org;
}
