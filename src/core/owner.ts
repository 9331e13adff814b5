/** Whose jobs an operation reaches: those of an org, or only those of one of its projects. */
export type Owner = {
  readonly orgId: string;
  /** Null: the whole org. */
  readonly projectId: string | null;
};

export const wholeOrg = (orgId: string): Owner => ({ orgId, projectId: null });

/** Whether an operation of the owner reaches a job of its org. */
export const reaches = ({ projectId }: Owner, job: { readonly projectId: string | null }): boolean =>
  projectId === null || job.projectId === projectId;
