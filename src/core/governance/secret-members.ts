/** Names of members that a governed payload must not have. Case, dashes and underscores do not matter. */
export const SECRET_MEMBERS = ['password', 'passwd', 'secret', 'token', 'api_key', 'authorization', 'cookie', 'private_key'] as const;

const bare = (name: string): string => name.replaceAll(/[-_]/g, '').toLowerCase();

const BARE_NAMES: ReadonlySet<string> = new Set(SECRET_MEMBERS.map(bare));

export const isSecretMember = (name: string): boolean => BARE_NAMES.has(bare(name));
