/** Tasks of many orgs, taken from each org in turn. */
export class TurnsOfOrgs<Task extends { readonly orgId: string }> {
  /** By org, the next turn first. */
  readonly #ofOrg = new Map<string, Task[]>();

  push(task: Task): void {
    const tasks = this.#ofOrg.get(task.orgId);
    if (tasks === undefined) this.#ofOrg.set(task.orgId, [task]);
    else tasks.push(task);
  }

  shift(): Task | undefined {
    for (const [orgId, tasks] of this.#ofOrg) {
      const task = tasks.shift();
      this.#ofOrg.delete(orgId);
      if (tasks.length > 0) this.#ofOrg.set(orgId, tasks);
      return task;
    }
    return undefined;
  }
}
